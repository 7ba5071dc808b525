use crate::engine::{Job, JobInput};
use crate::prepared::KeptFile;
use crate::server::App;
use flipcast_images::Image;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

/// Sends images to a server of the same process, as requests do. It does not keep the server alive.
#[derive(Clone)]
pub struct Feeder(Weak<App>);

impl Feeder {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Self(Arc::downgrade(app))
    }

    /// Sends images to a stream and waits until they are counted; `false` once the server has stopped. Images that cannot be used are
    /// an error.
    pub fn send(&self, stream: &str, images: Vec<Image>) -> Result<bool, String> {
        let Some(app) = self.0.upgrade() else { return Ok(false) };
        let Some(preparation) = &app.preparation else { return Err("there is no network here".to_owned()) };
        let keeps = app.config.keep_images.is_some();
        let files: Vec<Option<KeptFile>> = images.iter().filter(|_| keeps).map(|image| Some(png_file(image))).collect();
        let mut prepared = Vec::with_capacity(images.len());
        for image in images {
            prepared.push(preparation.prepare_image(image)?);
        }
        let (reply, answer) = oneshot::channel();
        let job = Job { files, ..Job::new(stream.to_owned(), None, JobInput::Images(prepared), reply) };
        if app.jobs.send(job).is_err() {
            return Ok(false);
        }
        drop(app);
        match answer.blocking_recv() {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(refusal)) => Err(format!("{refusal:?}")),
            Err(_) => Ok(false),
        }
    }
}

/// Pixels as a file that browsers show.
pub(crate) fn png_file(image: &Image) -> KeptFile {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, image.width() as u32, image.height() as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(image.rgb()));
    written.expect("an image has pixels, and memory takes them");
    KeptFile { media_type: "image/png", bytes }
}

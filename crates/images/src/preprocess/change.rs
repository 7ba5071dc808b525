use super::{Interpolation, Normalise, Preprocess, PreprocessError, Resize, Size};

/// What a byte is divided by before mean and standard deviation, unless the caller says otherwise.
const USUAL_SCALE: f32 = 255.0;

/// Settings of a [`Preprocess`] that the caller knows better than whatever else tells them. Those that are `None` stay as they are.
///
/// ```
/// use flipcast_images::preprocess::{Preprocess, PreprocessChange, Resize, Size};
///
/// let change = PreprocessChange { resize: Some(Resize::ShortSide(288)), ..PreprocessChange::default() };
/// let rule = change.apply(Some(&Preprocess::torchvision_v1()))?;
/// assert_eq!((rule.resize, rule.crop), (Resize::ShortSide(288), Some(Size::square(224))));
/// # Ok::<(), flipcast_images::preprocess::PreprocessError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreprocessChange {
    /// Mean of red, green and blue, in units of `scale`.
    pub mean: Option<[f32; 3]>,
    /// Standard deviation of red, green and blue, in units of `scale`.
    pub std: Option<[f32; 3]>,
    /// What a byte is divided by first: 255 where means lie in 0..1, 1 where they are those of bytes.
    pub scale: Option<f32>,
    /// How the image is brought to size.
    pub resize: Option<Resize>,
    /// The centre part that is kept; `Some(None)` keeps all of it.
    pub crop: Option<Option<Size>>,
    /// The filter of the resize.
    pub interpolation: Option<Interpolation>,
}

impl PreprocessChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `known` with these settings. Where nothing is known, images are neither scaled nor cropped, and mean and standard deviation
    /// must be among the settings.
    pub fn apply(&self, known: Option<&Preprocess>) -> Result<Preprocess, PreprocessError> {
        let rule = Preprocess {
            resize: self.resize.or(known.map(|rule| rule.resize)).unwrap_or(Resize::None),
            crop: self.crop.unwrap_or(known.and_then(|rule| rule.crop)),
            interpolation: self
                .interpolation
                .or(known.map(|rule| rule.interpolation))
                .unwrap_or(Interpolation::Bilinear),
            normalise: self.normalise(known.map(|rule| &rule.normalise))?,
        };
        rule.check()?;
        Ok(rule)
    }

    fn normalise(&self, known: Option<&Normalise>) -> Result<Normalise, PreprocessError> {
        if let (None, None, None, Some(known)) = (self.mean, self.std, self.scale, known) {
            return Ok(known.clone());
        }
        let (known_mean, known_std) = match known {
            Some(Normalise::MeanStd { mean, std }) => (Some(*mean), Some(*std)),
            Some(Normalise::Bytes { offset, divisor }) => {
                (Some([offset / USUAL_SCALE; 3]), Some([divisor / USUAL_SCALE; 3]))
            }
            // A scale alone is a whole rule: bytes divided by it, and nothing else.
            None if self.scale.is_some() => (Some([0.0; 3]), Some([1.0; 3])),
            None => (None, None),
        };
        let mean = self.mean.or(known_mean).ok_or(PreprocessError::NormaliseUnknown { missing: "mean" })?;
        let std = self.std.or(known_std).ok_or(PreprocessError::NormaliseUnknown { missing: "std" })?;
        let scale = self.scale.unwrap_or(USUAL_SCALE);
        if !(scale.is_finite() && scale > 0.0) {
            return Err(PreprocessError::BadScale { field: "scale", found: scale });
        }
        if scale == USUAL_SCALE {
            return Ok(Normalise::MeanStd { mean, std });
        }
        let ([mean, ..], [std, ..], true) = (mean, std, mean == [mean[0]; 3] && std == [std[0]; 3]) else {
            let in_unit_range = |values: [f32; 3]| values.map(|value| value * scale / USUAL_SCALE);
            return Ok(Normalise::MeanStd { mean: in_unit_range(mean), std: in_unit_range(std) });
        };
        Ok(Normalise::Bytes { offset: mean * scale, divisor: std * scale })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_not_given_stay() {
        let known = Preprocess::torchvision_v1();
        assert_eq!(PreprocessChange::default().apply(Some(&known)).unwrap(), known);
        let change =
            PreprocessChange { std: Some([0.5; 3]), crop: Some(Some(Size::square(192))), ..Default::default() };
        let rule = change.apply(Some(&known)).unwrap();
        assert_eq!(rule.normalise, Normalise::MeanStd { mean: [0.485, 0.456, 0.406], std: [0.5; 3] });
        assert_eq!((rule.resize, rule.crop), (Resize::ShortSide(256), Some(Size::square(192))));
    }

    #[test]
    fn without_knowledge_mean_and_std_are_needed_and_the_rest_is_not() {
        let only_mean = PreprocessChange { mean: Some([0.5; 3]), ..Default::default() };
        assert_eq!(only_mean.apply(None), Err(PreprocessError::NormaliseUnknown { missing: "std" }));
        let both = PreprocessChange { std: Some([0.5; 3]), ..only_mean };
        assert_eq!(both.apply(None).unwrap(), Preprocess::normalise_only(Normalise::half()));
    }

    #[test]
    fn a_scale_of_one_takes_means_of_bytes() {
        let bytes = PreprocessChange { scale: Some(1.0), ..Default::default() };
        assert_eq!(bytes.apply(None).unwrap().normalise, Normalise::Bytes { offset: 0.0, divisor: 1.0 });
        let means =
            PreprocessChange { mean: Some([127.5, 51.0, 0.0]), std: Some([51.0, 255.0, 25.5]), ..bytes.clone() };
        let Normalise::MeanStd { mean, std } = means.apply(None).unwrap().normalise else { panic!("two lists") };
        assert_eq!((mean, std), ([0.5, 0.2, 0.0], [0.2, 1.0, 0.1]));
        let zero = PreprocessChange { scale: Some(0.0), ..bytes };
        assert!(matches!(zero.apply(None), Err(PreprocessError::BadScale { field: "scale", .. })));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let crop = PreprocessChange { crop: Some(Some(Size::square(64))), ..Default::default() };
        assert!(matches!(crop.apply(Some(&Preprocess::tiny_imagenet_128())), Err(PreprocessError::FloatRule { .. })));
    }
}

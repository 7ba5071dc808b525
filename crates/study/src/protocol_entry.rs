//! Flip protocols in a plan: one by name, with settings of its own.

use crate::StudyError;
use flipcast_adapt::{MethodConfig, Recipe};
use flipcast_graph::Graph;
use flipcast_run::FlipProtocol;
use serde::Deserialize;

/// A protocol and what is changed about it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolEntry {
    /// What the plan calls it.
    pub name: String,
    /// The protocol it starts from.
    #[serde(default = "default_base")]
    pub base: String,
    /// The method: a name, for its published settings, or all settings.
    pub method: Option<toml::Value>,
    /// The data whose published settings a method by name takes.
    pub recipe: Option<Recipe>,
    /// Steps after which the probe is predicted again.
    pub stops: Option<Vec<usize>>,
    /// Images of a step.
    pub batch_size: Option<usize>,
    /// Images of the probe.
    pub probe_images: Option<usize>,
    /// Probe images that share batch statistics.
    pub probe_chunk: Option<usize>,
    /// Images that are used at all, from all over the dataset.
    pub image_limit: Option<usize>,
}

fn default_base() -> String {
    "flipcast".to_owned()
}

impl ProtocolEntry {
    /// The protocol called `base`, unchanged.
    pub(crate) fn plain(base: &str) -> Self {
        Self {
            name: base.to_owned(),
            base: base.to_owned(),
            method: None,
            recipe: None,
            stops: None,
            batch_size: None,
            probe_images: None,
            probe_chunk: None,
            image_limit: None,
        }
    }

    /// The protocol it stands for, whatever the network. It keeps the name of its base, which chooses the curve.
    pub fn resolve(&self, seed: u64) -> Result<FlipProtocol, StudyError> {
        self.change(FlipProtocol::named(&self.base), seed)
    }

    /// The protocol it stands for with a network of this graph: the base may depend on what normalises it.
    pub fn resolve_for(&self, graph: &Graph, seed: u64) -> Result<FlipProtocol, StudyError> {
        self.change(FlipProtocol::for_network(&self.base, graph), seed)
    }

    fn change(
        &self,
        base: Result<FlipProtocol, flipcast_run::RunError>,
        seed: u64,
    ) -> Result<FlipProtocol, StudyError> {
        let wrong = |source: flipcast_run::RunError| StudyError::setting("protocol", &self.name, source);
        let mut protocol = base.map_err(wrong)?;
        if let Some(method) = &self.method {
            protocol.method = self.method(method)?;
        }
        if let Some(stops) = &self.stops {
            protocol.stops = stops.clone();
        }
        protocol.batch_size = self.batch_size.unwrap_or(protocol.batch_size);
        protocol.probe_images = self.probe_images.unwrap_or(protocol.probe_images);
        protocol.probe_chunk = self.probe_chunk.unwrap_or(protocol.probe_chunk);
        protocol.image_limit = self.image_limit.or(protocol.image_limit);
        protocol.seed = seed;
        protocol.check().map_err(wrong)?;
        Ok(protocol)
    }

    fn method(&self, method: &toml::Value) -> Result<MethodConfig, StudyError> {
        match method {
            toml::Value::String(name) => {
                let recipe = self.recipe.unwrap_or(Recipe::ImageNet);
                MethodConfig::published(name, recipe)
                    .map_err(|source| StudyError::setting("protocol", &self.name, source))
            }
            settings => MethodConfig::deserialize(settings.clone())
                .map_err(|source| StudyError::setting("protocol", &self.name, source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ProtocolEntry {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn settings_replace_those_of_the_base() {
        let entry = read("name = 'x'\nbase = 'code'\nstops = [100, 500]\nprobe_images = 100");
        let protocol = entry.resolve(7).unwrap();
        assert_eq!((protocol.last_stop(), protocol.probe_images), (500, 100));
        assert_eq!((protocol.name.as_str(), protocol.seed), ("code", 7));
    }

    #[test]
    fn a_method_is_a_name_or_a_table() {
        let tent = read("name = 'x'\nmethod = 'tent'").resolve(0).unwrap();
        assert_eq!(tent.method.name(), "tent");
        let source = read("name = 'x'\nmethod = { method = 'source' }");
        assert_eq!(source.resolve(0).unwrap().method.name(), "source");
        for wrong in ["method = 'tnet'", "base = 'papr'", "stops = []"] {
            let entry = read(&format!("name = 'x'\n{wrong}"));
            assert!(entry.resolve(0).is_err(), "{wrong}");
        }
    }
}

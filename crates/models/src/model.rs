use crate::derived::Derived;
use crate::fit::fit_tensors;
use crate::random::random_params;
use crate::{Architecture, Family, ModelError, ModelKnowledge, TensorInfo};
use flipcast_graph::{Graph, NormKind};
use flipcast_images::preprocess::{Preprocess, Size};
use flipcast_tensor::{DType, Tensor};
use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A network with its frozen weights, and what is needed to use it on images.
///
/// Every parameter of the graph is there, has the right extents and is finite. Cloning shares the weights.
///
/// ```
/// use flipcast_models::Model;
///
/// let model = Model::random("cifar_resnet8_w4", 10, 1)?;
/// assert_eq!((model.num_classes(), model.input_size().width), (10, 32));
/// // What adapts: the scale and shift of every norm layer, in one vector.
/// let mut affine = model.affine();
/// affine.fill(0.5);
/// assert_eq!(model.with_affine(&affine)?.affine(), affine);
/// # Ok::<(), flipcast_models::ModelError>(())
/// ```
#[derive(Clone)]
pub struct Model {
    name: String,
    architecture: String,
    graph: Arc<Graph>,
    params: Arc<HashMap<String, Tensor>>,
    input_size: Size,
    preprocess: Option<Preprocess>,
    class_names: Option<Arc<Vec<String>>>,
    weights_sha256: Option<String>,
    pub(crate) notes: Arc<[String]>,
    pub(crate) knowledge: Option<Arc<ModelKnowledge>>,
    /// Names of published weights that such tensors have.
    pub(crate) published: Arc<[&'static str]>,
    derived: Arc<Derived>,
}

impl Model {
    /// A model of `graph` with the values of `params`, which must be exactly those the graph needs. Nothing is known
    /// about its images; its name is `custom` until [`Model::with_name`].
    pub fn from_params(graph: Graph, params: HashMap<String, Tensor>) -> Result<Self, ModelError> {
        let architecture = "custom".to_owned();
        let mut tensors: Vec<_> = params.iter().map(|(name, tensor)| describe(name, tensor)).collect();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let (fit, _) = fit_tensors(Family::CUSTOM, &graph.params(), tensors.iter());
        if !fit.is_exact() {
            return Err(ModelError::do_not_fit(architecture, &graph, fit));
        }
        check_values(&graph, &params)?;
        Ok(Self {
            name: architecture.clone(),
            architecture,
            graph: Arc::new(graph),
            params: Arc::new(params),
            input_size: Size::square(224),
            preprocess: None,
            class_names: None,
            weights_sha256: None,
            notes: Arc::default(),
            knowledge: None,
            published: Arc::default(),
            derived: Arc::default(),
        })
    }

    /// A model of the architecture called `architecture` with random weights, for tests and measurements. The same
    /// seed gives the same weights on every machine.
    ///
    /// ```
    /// let model = flipcast_models::Model::random("cifar_resnet8_w4", 10, 1)?;
    /// assert_eq!((model.name(), model.num_classes()), ("cifar_resnet8_w4.random1", 10));
    /// # Ok::<(), flipcast_models::ModelError>(())
    /// ```
    pub fn random(architecture: &str, classes: usize, seed: u64) -> Result<Self, ModelError> {
        let architecture = Architecture::find(architecture)?.with_classes(classes);
        let graph = build_graph(&architecture)?;
        let params = random_params(&graph, seed);
        let model = Self::from_params(graph, params)?;
        let name = format!("{}.random{seed}", architecture.name);
        Ok(model.with_architecture(&architecture).with_name(name))
    }

    /// The same model under another name.
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same model with another way to prepare images.
    pub fn with_preprocess(mut self, preprocess: Preprocess) -> Self {
        if let Some(size) = preprocess.fixed_size() {
            self.input_size = size;
        }
        self.preprocess = Some(preprocess);
        self
    }

    /// The same model with names for its classes, one for each.
    pub fn with_class_names(mut self, names: Vec<String>) -> Result<Self, ModelError> {
        let expected = self.graph.num_classes();
        if names.len() != expected {
            return Err(ModelError::ClassNames { model: self.name, expected, found: names.len() });
        }
        self.class_names = Some(Arc::new(names));
        Ok(self)
    }

    /// The same model with other layers and weights, which fit each other.
    pub(crate) fn with_layers(&self, graph: Graph, params: HashMap<String, Tensor>) -> Self {
        Self { graph: Arc::new(graph), params: Arc::new(params), derived: Arc::default(), ..self.clone() }
    }

    /// The same model with other start values of the vector that adapts, laid out as [`Graph::affine_table`] says.
    ///
    /// # Errors
    /// When there are not as many values, or one is not finite.
    pub fn with_affine(&self, affine: &[f32]) -> Result<Self, ModelError> {
        let table = self.graph.affine_table();
        if affine.len() != table.len() {
            let (found, expected) = (affine.len(), table.len());
            return Err(ModelError::AffineLength { model: self.name.clone(), found, expected });
        }
        let mut params = HashMap::clone(&self.params);
        for (name, range) in table.names() {
            if let Some(param) = params.get_mut(&name) {
                param.values_mut().copy_from_slice(&affine[range]);
            }
        }
        check_values(&self.graph, &params)?;
        Ok(self.with_layers(Graph::clone(&self.graph), params))
    }

    pub(crate) fn with_architecture(self, architecture: &Architecture) -> Self {
        self.with_input_size(&architecture.name, Size::square(architecture.input_size))
    }

    pub(crate) fn with_input_size(mut self, architecture: &str, size: Size) -> Self {
        architecture.clone_into(&mut self.architecture);
        self.input_size = size;
        self
    }

    pub(crate) fn with_sha256(mut self, sha256: String) -> Self {
        self.weights_sha256 = Some(sha256);
        self
    }

    /// The model's name, `<architecture>.<weights>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The architecture's name.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The layers.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// All weights by parameter name.
    pub fn params(&self) -> &Arc<HashMap<String, Tensor>> {
        &self.params
    }

    /// The weight called `name`, one of [`Graph::params`].
    pub fn param(&self, name: &str) -> Option<&Tensor> {
        self.params.get(name)
    }

    /// Number of classes.
    pub fn num_classes(&self) -> usize {
        self.graph.num_classes()
    }

    /// The images' size: what preprocessing gives, or else what the architecture usually takes.
    pub fn input_size(&self) -> Size {
        self.input_size
    }

    /// How images are prepared, if known.
    pub fn preprocess(&self) -> Option<&Preprocess> {
        self.preprocess.as_ref()
    }

    /// How images are prepared, or an error that says how to tell.
    pub fn require_preprocess(&self) -> Result<&Preprocess, ModelError> {
        self.preprocess.as_ref().ok_or_else(|| ModelError::NoPreprocess {
            model: self.name.clone(),
            published: self.published.iter().copied().collect(),
        })
    }

    /// One name per class, if known.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_ref().map(|names| names.as_slice())
    }

    /// SHA-256 of the weight file in hexadecimal; none for weights that came from no file.
    pub fn weights_sha256(&self) -> Option<&str> {
        self.weights_sha256.as_deref()
    }

    /// Where what is known about the model came from; `None` for one that came from no file.
    pub fn knowledge(&self) -> Option<&ModelKnowledge> {
        self.knowledge.as_deref()
    }

    /// What a user should know about how the weights were loaded, such as a file that was ignored.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What a later stage makes of graph and weights once, such as their packed form: the value of type `T` that `make` gave when
    /// it was first asked for. All clones share it, and it is dropped with the last.
    pub fn derived<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.derived.get_or_make(make)
    }

    /// The start values of the flat vector that adapts: scale and shift of every norm layer, laid out as
    /// [`Graph::affine_table`] says.
    pub fn affine(&self) -> Vec<f32> {
        let table = self.graph.affine_table();
        let mut values = vec![0.0; table.len()];
        for (name, range) in table.names() {
            values[range].copy_from_slice(self.params[&name].values());
        }
        values
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The weights are left out: millions of numbers help nobody.
        f.debug_struct("Model")
            .field("name", &self.name)
            .field("architecture", &self.architecture)
            .field("num_classes", &self.num_classes())
            .field("preprocess", &self.preprocess)
            .field("weights_sha256", &self.weights_sha256)
            .finish_non_exhaustive()
    }
}

pub(crate) fn build_graph(architecture: &Architecture) -> Result<Graph, ModelError> {
    let graph = architecture.config.build();
    graph.map_err(|source| ModelError::Graph { architecture: architecture.name.clone(), source })
}

fn describe(name: &str, tensor: &Tensor) -> TensorInfo {
    TensorInfo { name: name.to_owned(), dtype: DType::F32, shape: tensor.shape().clone() }
}

/// Refuses values no network can compute with, naming the first in the graph's order.
fn check_values(graph: &Graph, params: &HashMap<String, Tensor>) -> Result<(), ModelError> {
    for param in graph.params() {
        let values = params[&param.name].values();
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(ModelError::NotFinite { tensor: param.name, index, value: values[index] });
        }
    }
    let batch_norms = graph.norms().filter(|(_, norm)| norm.kind == NormKind::Batch);
    for (id, _) in batch_norms {
        let tensor = format!("{}.running_var", graph.node(id).name);
        let values = params[&tensor].values();
        if let Some(index) = values.iter().position(|&value| value < 0.0) {
            return Err(ModelError::NegativeVariance { tensor, index, value: values[index] });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ResNetConfig, Shortcut, build_resnet};
    use flipcast_ground::Hint;

    fn small() -> (Graph, HashMap<String, Tensor>) {
        let config = ResNetConfig::cifar(8, 4, Shortcut::B, 5).unwrap();
        let graph = build_resnet(&config).unwrap();
        let params = random_params(&graph, 1);
        (graph, params)
    }

    #[test]
    fn the_affine_vector_holds_every_scale_and_shift() {
        let (graph, params) = small();
        let model = Model::from_params(graph, params).unwrap();
        let affine = model.affine();
        let table = model.graph().affine_table();
        assert_eq!(affine.len(), table.len());
        let range = table.find("layer2.0.bn1.bias").unwrap();
        assert_eq!(affine[range], *model.param("layer2.0.bn1.bias").unwrap().values());
    }

    #[test]
    fn a_nan_names_its_tensor() {
        let (graph, mut params) = small();
        params.get_mut("layer1.0.conv2.weight").unwrap().values_mut()[7] = f32::NAN;
        let error = Model::from_params(graph, params).unwrap_err();
        assert_eq!(error.to_string(), "tensor `layer1.0.conv2.weight` holds NaN at element 7, expected finite values");
    }

    #[test]
    fn a_negative_variance_is_refused() {
        let (graph, mut params) = small();
        params.get_mut("bn1.running_var").unwrap().values_mut()[2] = -1.0;
        let error = Model::from_params(graph, params).unwrap_err();
        assert!(matches!(error, ModelError::NegativeVariance { index: 2, .. }));
    }

    #[test]
    fn missing_and_left_over_parameters_are_told_together() {
        let (graph, mut params) = small();
        let bias = params.remove("fc.bias").unwrap();
        params.insert("extra".into(), bias);
        let error = Model::from_params(graph, params).unwrap_err();
        let ModelError::TensorsDoNotFit { missing, unused, .. } = error else { panic!("{error}") };
        assert_eq!((missing, unused), (vec!["fc.bias".into()], vec!["extra".into()]));
    }

    #[test]
    fn unknown_preprocessing_is_an_error_with_advice() {
        let model = Model::random("cifar_resnet8_w4", 5, 1).unwrap();
        let error = model.require_preprocess().unwrap_err();
        assert_eq!(error.to_string(), "the preprocessing of `cifar_resnet8_w4.random1` is not known");
        assert!(error.hint().unwrap().contains("model card"));
    }

    #[test]
    fn class_names_must_be_as_many_as_classes() {
        let model = Model::random("cifar_resnet8_w4", 5, 1).unwrap();
        let error = model.with_class_names(vec!["cat".into()]).unwrap_err();
        assert!(matches!(error, ModelError::ClassNames { expected: 5, found: 1, .. }));
    }
}

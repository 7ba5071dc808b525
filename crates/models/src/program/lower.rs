use super::operators::{OPERATORS, Operator, Scores};
use super::room::Room;
use super::schema::{Call, Program};
use super::view::{View, channel_axis};
use super::{CallError, Place, ProgramError, rotary};
use crate::WeightFile;
use crate::text::shown;
use crate::weights::StoredProgram;
use flipcast_graph::{Dims, Graph, GraphBuilder, NodeId};
use flipcast_images::preprocess::Size;
use flipcast_tensor::{DType, Shape, Tensor};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// More values of one image than any layer has.
const MOST_VALUES: usize = 1 << 31;
/// Classes that need no room of the file's for a layer that changes nothing.
const FREE_CLASSES: usize = 1000;
/// Sides of the example images.
const LARGEST_SIDE: usize = 1 << 14;

/// A program as a network.
pub(crate) struct Lowered {
    pub graph: Graph,
    pub params: HashMap<String, Tensor>,
    /// The images of the example.
    pub size: Size,
    /// A layer that holds for images of that size alone.
    pub bound_to_size: Option<String>,
}

/// A value of the program.
#[derive(Clone)]
pub(super) enum Value {
    /// What depends on the images.
    View(View),
    /// What does not.
    Constant(Constant),
    /// A tensor of the file that nothing has read yet.
    Stored(String),
    Int(i64),
    /// Products of queries and keys that attention is about to be made of.
    Scores(Box<Scores>),
    /// Lengths of the vectors on the last axis of a view, which is about to be divided by them.
    Lengths(Box<View>),
}

impl Value {
    /// Elements that were made for it and not read from the file.
    fn made_elements(&self) -> usize {
        let elements = |constant: &Constant| constant.tensor.values().len();
        match self {
            Self::Constant(constant) if constant.name.is_none() => elements(constant),
            Self::Scores(scores) => [&scores.bias, &scores.mask].into_iter().flatten().map(elements).sum(),
            _ => 0,
        }
    }
}

/// A tensor that is known before any image is.
#[derive(Clone)]
pub(super) struct Constant {
    pub tensor: Arc<Tensor>,
    /// Its name, if it is one of the file's tensors as it is.
    pub name: Option<String>,
    /// Whether it holds whole numbers, which divide as such.
    pub integer: bool,
}

impl Constant {
    pub fn new(extents: Vec<usize>, values: Vec<f32>) -> Option<Self> {
        let tensor = Tensor::new(Shape::new(extents), values).ok()?;
        Some(Self { tensor: Arc::new(tensor), name: None, integer: false })
    }

    /// A list of whole numbers.
    pub fn numbers(values: Vec<i64>) -> Self {
        let constant = Self::new(vec![values.len()], values.iter().map(|&value| value as f32).collect());
        Self { integer: true, ..constant.expect("one extent of as many values") }
    }

    pub fn extents(&self) -> &[usize] {
        self.tensor.shape().extents()
    }
}

/// The network so far.
pub(super) struct Lowering<'a> {
    pub file: &'a WeightFile,
    /// What constants and parameters may still be made of.
    pub room: Room,
    /// What they might be made of at first, and the most channels that a value may have.
    whole_room: Room,
    pub builder: GraphBuilder,
    pub params: HashMap<String, Tensor>,
    /// Images of the example.
    pub batch: usize,
    /// Every node, with the extents of its value for the example.
    nodes: Vec<(NodeId, Dims)>,
    pub values: HashMap<String, Value>,
    /// Which values share memory in PyTorch, by name.
    memory: HashMap<String, usize>,
    /// Values whose memory was changed through another.
    stale: HashSet<String>,
    /// Of constants that are parts of another: its name, and their elements' places in it.
    windows: HashMap<String, (String, Constant)>,
    /// The whole constant whose part was just changed in place, and which was changed with it.
    changed_whole: Option<String>,
    /// Names that are taken, with the number that the next of the same name gets.
    names: HashMap<String, usize>,
    /// Paths of modules that have weights: their layers are called so, and no other.
    paths: HashSet<String>,
    /// Nodes that may be the last.
    pub linear: HashSet<NodeId>,
    pub bound_to_size: Option<String>,
}

/// Every call of the program in `file`, by the name that the file has for it and whether the operator is understood. Empty where
/// the program cannot be read.
pub(crate) fn list_operators(file: &WeightFile, program: &StoredProgram) -> Vec<(String, bool)> {
    let calls = match program {
        StoredProgram::Exported(place) => Program::read(file.bytes(place.clone())).map(|program| program.calls),
        StoredProgram::Onnx(model) => {
            let operators = model.nodes.iter().map(|node| &node.operator);
            return operators.map(|name| (shown(name), Operator::of_onnx(name).is_some())).collect();
        }
    };
    let named = |call: Call| {
        let (name, _) = Operator::plain_name(&call.operator);
        (shown(name), OPERATORS.iter().any(|operator| operator.name == name))
    };
    calls.unwrap_or_default().into_iter().map(named).collect()
}

/// The network that the program in `file` describes. Images have the sizes that the program fixes, and those of `size` where it
/// leaves them free.
pub(crate) fn lower_program(file: &WeightFile, program: &StoredProgram, size: Size) -> Result<Lowered, ProgramError> {
    let program = match program {
        StoredProgram::Exported(place) => {
            let program = Program::read(file.bytes(place.clone()))?;
            Program { calls: rotary::fuse(program.calls, &program.output, &|_| None), ..program }
        }
        StoredProgram::Onnx(model) => Program::from_onnx(file, model, size)?,
    };
    let [batch, channels, rows, columns] = program.example;
    let fits = [batch, channels, rows, columns].iter().all(|size| (1..=LARGEST_SIDE).contains(size));
    if !fits {
        return Err(ProgramError::Example { found: program.example });
    }
    let (builder, input) = GraphBuilder::new(channels);
    let dims = Dims::new(rows, columns, channels);
    let room = Room::of_file(file.len());
    let mut lowering = Lowering {
        file,
        room,
        whole_room: room,
        builder,
        params: HashMap::new(),
        batch,
        nodes: vec![(input, dims)],
        values: HashMap::new(),
        memory: HashMap::new(),
        stale: HashSet::new(),
        windows: HashMap::new(),
        changed_whole: None,
        names: HashMap::from([("input".to_owned(), 2)]),
        paths: program.tensors.iter().filter_map(|(_, name)| Some(name.rsplit_once('.')?.0.to_owned())).collect(),
        linear: HashSet::new(),
        bound_to_size: None,
    };
    let stored = program.tensors.into_iter().map(|(name, tensor)| (name, Value::Stored(tensor)));
    let inputs = stored.chain([(program.input, Value::View(View::map(input, batch, dims)))]);
    for (index, (name, value)) in inputs.enumerate() {
        lowering.memory.insert(name.clone(), index);
        lowering.values.insert(name, value);
    }
    for call in &program.calls {
        lowering.run(call).map_err(|problem| {
            let Call { operator, onnx, module, name, .. } = call;
            let operator = onnx.as_ref().unwrap_or(operator).clone();
            let place = Place { operator, module: module.clone(), node: name.clone() };
            ProgramError::Call { place: Box::new(place), problem: Box::new(problem) }
        })?;
    }
    lowering.finish(&program.output, Size { width: columns, height: rows })
}

impl Lowering<'_> {
    fn run(&mut self, call: &Call) -> Result<(), CallError> {
        let (name, in_place) = Operator::plain_name(&call.operator);
        let operator = OPERATORS.iter().find(|operator| operator.name == name);
        let operator = operator.ok_or(CallError::UnknownOperator { known: OPERATORS.len() })?;
        let results = (operator.lower)(self, call)?;
        self.room.take(results.iter().map(Value::made_elements).sum())?;
        let first = call.tensor_name(0);
        let memory = match first.and_then(|first| self.memory.get(first)) {
            Some(&memory) if operator.is_view && !in_place => memory,
            _ => self.memory.len(),
        };
        let changed_whole = self.changed_whole.take();
        if let (true, Some(changed)) = (in_place, first) {
            let group = self.memory.get(changed).copied();
            let kept = |name: &str| name == changed || Some(name) == changed_whole.as_deref();
            let others = self.memory.iter().filter(|(name, other)| Some(**other) == group && !kept(name));
            let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
            self.stale.extend(others);
            if let Some(result) = results.first() {
                self.values.insert(changed.to_owned(), result.clone());
                self.memory.insert(changed.to_owned(), memory);
            }
        }
        for (name, value) in call.results.iter().zip(results).filter(|(name, _)| !name.is_empty()) {
            if self.values.insert(name.clone(), value).is_some() {
                return Err(CallError::DuplicateValue { name: shown(name) });
            }
            self.memory.insert(name.clone(), memory);
        }
        Ok(())
    }

    fn finish(mut self, output: &str, size: Size) -> Result<Lowered, ProgramError> {
        let name = || shown(output);
        let view = match self.values.get(output) {
            Some(Value::View(view)) => view.clone(),
            Some(Value::Scores(_)) => {
                return Err(ProgramError::NotLogits { name: name(), found: "a product of two values".into() });
            }
            Some(Value::Lengths(_)) => {
                return Err(ProgramError::NotLogits { name: name(), found: "lengths of vectors".into() });
            }
            Some(_) => return Err(ProgramError::NotLogits { name: name(), found: "a constant".into() }),
            None => return Err(ProgramError::NotLogits { name: name(), found: "made by no call".into() }),
        };
        let view = View { factor: 1.0, node: self.scaled_logits(&view), ..view };
        let dims = self.dims(view.node);
        let flat = View {
            axes: vec![view.axes[0].clone(), channel_axis(dims.channels)],
            ..View::map(view.node, self.batch, dims)
        };
        if view != flat || dims.pixels() != 1 || dims.channels < 2 {
            return Err(ProgramError::NotLogits { name: name(), found: view.to_string() });
        }
        let mut node = view.node;
        if !self.linear.contains(&node) {
            node = self.identity_head(node, dims.channels)?;
        }
        let graph = self.builder.finish(node).map_err(|source| ProgramError::Graph { source })?;
        graph.infer_dims(size.height, size.width).map_err(|source| ProgramError::Plan { source })?;
        Ok(Lowered { graph, params: self.params, size, bound_to_size: self.bound_to_size })
    }

    /// The node of the logits with the factor that waits for them applied.
    fn scaled_logits(&mut self, view: &View) -> NodeId {
        if view.factor == 1.0 {
            return view.node;
        }
        let (name, dims) = (self.unused_name("logits.factor"), self.dims(view.node));
        let factors = Tensor::new([dims.channels, 1, 1], vec![view.factor; dims.channels]);
        self.params.insert(name.clone(), factors.expect("one value was made per element"));
        let node = self.builder.scale(&name, view.node);
        self.nodes.push((node, dims));
        node
    }

    /// A network must end in a linear layer; one that ends otherwise gets one that changes nothing.
    fn identity_head(&mut self, node: NodeId, classes: usize) -> Result<NodeId, ProgramError> {
        if classes > FREE_CLASSES && self.room.count(&[classes, classes]).is_err() {
            let found = format!("{classes} values, too many to be classes in a file of this size");
            return Err(ProgramError::NotLogits { name: "logits".into(), found });
        }
        let name = self.unused_name("logits");
        let mut weight = vec![0.0; classes * classes];
        weight.iter_mut().step_by(classes + 1).for_each(|one| *one = 1.0);
        let weight = Tensor::new([classes, classes], weight).expect("one value was made per element");
        self.params.insert(format!("{name}.weight"), weight);
        Ok(self.builder.linear_without_bias(&name, node, classes, classes))
    }

    /// Notes that the constant `result` is `range` along `axis` of the constant `name`.
    pub fn note_window(
        &mut self,
        name: &str,
        result: &str,
        constant: &Constant,
        axis: usize,
        range: Range<usize>,
    ) -> Result<(), CallError> {
        let (whole, places) = match self.windows.get(name) {
            Some(window) => window.clone(),
            None => {
                let count = constant.tensor.values().len();
                let places = Constant::numbers((0..count as i64).collect());
                (name.to_owned(), Constant::of(constant.extents().to_vec(), places.tensor.values().to_vec(), true)?)
            }
        };
        let positions: Vec<usize> = range.filter(|&at| at < places.extents()[axis]).collect();
        let places = places.take(self.room, axis, &positions, &[positions.len()])?;
        self.windows.insert(result.to_owned(), (whole, places));
        Ok(())
    }

    /// Fills the part `name` of a constant in the whole of it.
    pub fn fill_window(&mut self, name: &str, value: f32) -> Result<(), CallError> {
        let Some((whole, places)) = self.windows.get(name).cloned() else {
            return Ok(());
        };
        let Value::Constant(constant) = self.value(&whole)? else {
            return Err(CallError::ChangedInPlace { name: shown(&whole) });
        };
        let mut values = constant.tensor.values().to_vec();
        for &place in places.tensor.values() {
            if let Some(element) = values.get_mut(place as usize) {
                *element = value;
            }
        }
        let filled = Constant::of(constant.extents().to_vec(), values, constant.integer)?;
        self.values.insert(whole.clone(), Value::Constant(filled));
        self.changed_whole = Some(whole);
        Ok(())
    }

    /// The value called `name`.
    pub fn value(&mut self, name: &str) -> Result<Value, CallError> {
        if self.stale.contains(name) {
            return Err(CallError::ChangedInPlace { name: shown(name) });
        }
        let value = self.values.get(name).cloned().ok_or_else(|| CallError::UnknownValue { name: shown(name) })?;
        let Value::Stored(stored) = &value else {
            return Ok(value);
        };
        let tensor = self.file.load(stored).map_err(|_| CallError::MissingTensor { name: shown(stored) })?;
        let integer = self.file.info(stored).is_some_and(|info| is_integer(info.dtype));
        let loaded = Value::Constant(Constant { tensor: Arc::new(tensor), name: Some(stored.clone()), integer });
        self.values.insert(name.to_owned(), loaded.clone());
        Ok(loaded)
    }

    /// Extents of a node's value for the example.
    pub fn dims(&self, node: NodeId) -> Dims {
        self.nodes[node.index()].1
    }

    /// A node with `rows` rows and `columns` columns.
    pub fn node_of_size(&self, rows: usize, columns: usize) -> Option<NodeId> {
        let mut nodes = self.nodes.iter();
        nodes.find(|(_, dims)| (dims.height, dims.width) == (rows, columns)).map(|(node, _)| *node)
    }

    /// Notes the extents of a node that was just added.
    pub fn note(&mut self, node: NodeId, dims: Dims) -> Result<NodeId, CallError> {
        let values = dims.height.checked_mul(dims.width).and_then(|pixels| pixels.checked_mul(dims.channels));
        if values.is_none_or(|values| values == 0 || values > MOST_VALUES) {
            return Err(CallError::Extents { problem: format!("{dims} values of an image") });
        }
        self.whole_room.count(&[dims.channels])?;
        self.nodes.push((node, dims));
        debug_assert_eq!(self.nodes.len(), node.index() + 1, "every node's extents are noted once");
        Ok(node)
    }

    /// A name for the node of `call`: `wanted`, or the module's path, if nothing else has it.
    pub fn name(&mut self, call: &Call, wanted: Option<&str>) -> String {
        let wanted = wanted.filter(|name| !name.is_empty());
        let module = Some(call.module.as_str()).filter(|path| !path.is_empty() && !self.paths.contains(*path));
        for name in wanted.into_iter().chain(module) {
            if !self.names.contains_key(name) {
                return self.unused_name(name);
            }
        }
        let path = if call.module.is_empty() { call.name.clone() } else { format!("{}.{}", call.module, call.name) };
        self.unused_name(&path)
    }

    fn unused_name(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        // A name with a number may itself be one that the file gives.
        while self.names.contains_key(&free) {
            let next = self.names.entry(name.to_owned()).or_insert(2);
            free = format!("{name}_{next}");
            *next += 1;
        }
        self.names.insert(free.clone(), 2);
        free
    }

    /// Keeps `constant` as the parameter `name` with other extents of the same size.
    pub fn keep(&mut self, name: String, extents: &[usize], constant: &Constant) -> Result<(), CallError> {
        self.room.take(constant.tensor.values().len())?;
        let tensor = Tensor::new(Shape::new(extents), constant.tensor.values().to_vec());
        let problem = || format!("`{}` has extents {:?}, expected {extents:?}", shown(&name), constant.extents());
        let tensor = tensor.map_err(|_| CallError::Extents { problem: problem() })?;
        self.params.insert(name, tensor);
        Ok(())
    }

    /// Says that the layer of `call` holds for images of the example's size alone.
    pub fn bind_to_size(&mut self, call: &Call) {
        let layer = if call.module.is_empty() { &call.name } else { &call.module };
        self.bound_to_size.get_or_insert_with(|| layer.clone());
    }
}

fn is_integer(dtype: DType) -> bool {
    match dtype {
        DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::Bool => true,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => false,
    }
}

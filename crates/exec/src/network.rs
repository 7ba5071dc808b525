use crate::kernels::Kernels;
use crate::norms::Norm;
use crate::weights::PackedConvs;
use crate::{Exactness, ExecError, Executor, Isa, Logits, NormMode};
use flipcast_executor::{ExecutorState, StepTimes, checks, param};
use flipcast_graph::{Activation, Graph, NormId, NormKind, Plan, PlanOptions, Purpose, Step};
use flipcast_kernels::{Buffer, NormTables, Team, ThroughTables};
use flipcast_tensor::{Batch, Tensor};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How to make a [`Network`].
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// Largest batch.
    pub batch: usize,
    /// Rows of an image.
    pub height: usize,
    /// Columns of an image.
    pub width: usize,
    /// Forward only, or both ways.
    pub purpose: Purpose,
    /// Nodes to read after a forward pass, besides `embedding` and `logits`.
    pub taps: Vec<String>,
    /// Threads; 0 means one per core.
    pub threads: usize,
    /// Which convolution algorithms may be chosen.
    pub exactness: Exactness,
    /// Instruction set; `None` means the best there is.
    pub isa: Option<Isa>,
}

impl NetworkOptions {
    /// Adapts batches of `batch` images of `height` x `width` on all cores.
    pub fn adapt(batch: usize, height: usize, width: usize) -> Self {
        Self {
            batch,
            height,
            width,
            purpose: Purpose::Adapt,
            taps: Vec::new(),
            threads: 0,
            exactness: Exactness::Fast,
            isa: None,
        }
    }

    /// The same, forward only.
    pub fn predict(batch: usize, height: usize, width: usize) -> Self {
        Self { purpose: Purpose::Predict, ..Self::adapt(batch, height, width) }
    }

    /// What they ask of the plan.
    pub fn plan_options(&self) -> PlanOptions {
        PlanOptions {
            batch: self.batch,
            height: self.height,
            width: self.width,
            purpose: self.purpose,
            taps: self.taps.clone(),
        }
    }
}

/// What a network takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The arena of activations and gradients.
    pub arena: usize,
    /// Most of it live at any one step.
    pub peak: usize,
    /// Packed weights.
    pub weights: usize,
    /// Scratch of all threads.
    pub scratch: usize,
}

/// A network on the CPU.
#[derive(Debug)]
pub struct Network {
    pub(crate) graph: Graph,
    pub(crate) plan: Arc<Plan>,
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) team: Team,
    pub(crate) arena: Buffer,
    /// Winning taps of max pools, and slopes of joins, by value.
    pub(crate) choices: Vec<Vec<u8>>,
    pub(crate) masks: Vec<Vec<u8>>,
    pub(crate) norms: Vec<Norm>,
    pub(crate) identity: Identity,
    pub(crate) state: ExecutorState,
    pub(crate) gradient: Vec<f32>,
    /// What a second run of the last steps begins with.
    pub(crate) kept: Vec<f32>,
    pub(crate) images: usize,
    pub(crate) times: Option<StepTimes>,
}

/// Tables of a value that has an activation but no norm.
#[derive(Debug)]
pub(crate) struct Identity {
    ones: Vec<f32>,
    zeros: Vec<f32>,
}

impl Identity {
    pub fn tables(&self) -> NormTables<'_> {
        NormTables { scale: &self.ones, shift: &self.zeros, per_image: false }
    }

    pub fn through(&self) -> ThroughTables<'_> {
        ThroughTables { slope: &self.ones, pull: &self.zeros, constant: &self.zeros }
    }
}

impl Network {
    /// Plans `graph` as `options` ask, and packs the weights in `params`. Several networks of the same weights are made faster by
    /// [`Weights`](crate::Weights).
    pub fn new(graph: &Graph, params: &HashMap<String, Tensor>, options: &NetworkOptions) -> Result<Self, ExecError> {
        Self::with_packed(graph, params, &PackedConvs::default(), options)
    }

    /// The same with convolutions from `packed`, which belongs to these weights.
    pub(crate) fn with_packed(
        graph: &Graph,
        params: &HashMap<String, Tensor>,
        packed: &PackedConvs,
        options: &NetworkOptions,
    ) -> Result<Self, ExecError> {
        let plan = Plan::new(graph, options.plan_options())?;
        let arena =
            Buffer::try_zeroed(plan.arena_len()).ok_or(ExecError::OutOfMemory { bytes: 4 * plan.arena_len() })?;
        let isa = options.isa.unwrap_or_else(Isa::detect);
        let kernels = Kernels::new(graph, &plan, params, packed, isa, options)?;
        let state = ExecutorState::new(graph, params)?;
        let mut norms = Vec::new();
        for slot in plan.norms() {
            let name = &graph.node(slot.node).name;
            let running = match slot.layer.kind {
                NormKind::Batch => {
                    let statistic = |suffix| param(params, &format!("{name}.{suffix}"), &[slot.layer.channels]);
                    Some((statistic("running_mean")?.to_vec(), statistic("running_var")?.to_vec()))
                }
                NormKind::Group { .. } | NormKind::Layer => None,
            };
            norms.push(Norm::new(*slot, options.batch, running));
        }
        let widest = plan.values().iter().map(|value| value.dims.channels).max().unwrap_or(0);
        let mut choices: Vec<Vec<u8>> = plan.values().iter().map(|_| Vec::new()).collect();
        let mut masks = choices.clone();
        for step in plan.forward() {
            match step {
                Step::MaxPool { target, .. } => {
                    choices[target.index()] = vec![0; options.batch * plan.value(*target).dims.len()];
                }
                Step::Join { activation, target, .. }
                    if *activation != Activation::Identity && options.purpose == Purpose::Adapt =>
                {
                    let dims = plan.value(*target).dims;
                    let extent = dims.extent(options.batch);
                    masks[target.index()] = vec![0; flipcast_kernels::mask_len(extent)];
                }
                _ => {}
            }
        }
        Ok(Self {
            team: Team::new(isa, options.threads, kernels.scratch(&plan)),
            arena,
            graph: graph.clone(),
            kernels: Arc::new(kernels),
            choices,
            masks,
            norms,
            identity: Identity { ones: vec![1.0; widest], zeros: vec![0.0; widest] },
            gradient: vec![0.0; state.affine().len()],
            kept: Vec::new(),
            state,
            images: 0,
            times: None,
            plan: Arc::new(plan),
        })
    }

    /// Bytes it takes.
    pub fn memory(&self) -> Memory {
        Memory {
            arena: 4 * self.plan.arena_len(),
            peak: 4 * self.plan.peak_len(),
            weights: self.kernels.weight_bytes(),
            scratch: self.team.scratch_bytes(),
        }
    }

    /// Whether any norm has running statistics. Without one, norm modes make no difference.
    pub fn has_batch_norm(&self) -> bool {
        self.graph.has_batch_norm()
    }

    /// The plan it runs by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Starts measuring the time of every step.
    pub fn start_profile(&mut self) {
        let zeros = |steps: usize| vec![Duration::ZERO; steps];
        self.times =
            Some(StepTimes { forward: zeros(self.plan.forward().len()), backward: zeros(self.plan.backward().len()) });
    }

    /// What was measured since `start_profile`.
    pub fn profile(&self) -> Option<&StepTimes> {
        self.times.as_ref()
    }

    /// The logits of the last forward pass.
    fn logits(&self) -> Logits<'_> {
        Logits::new(&self.arena[self.stored_range(self.plan.logits())], self.num_classes())
    }

    /// The first forward step that differs between two norm modes: it gathers statistics in one of them alone, or mixes them otherwise.
    fn parting(&self, modes: [NormMode; 2]) -> usize {
        let norms = self.norms.len();
        let differs = |norm: NormId| {
            let [first, second] = modes.map(|mode| mode.of_norm(norm.index(), norms));
            first != second
        };
        let steps = self.plan.forward();
        steps.iter().position(|step| step.norm().is_some_and(differs)).unwrap_or(steps.len())
    }

    /// The instruction set it runs on.
    pub fn isa(&self) -> Isa {
        self.team.isa()
    }

    /// Threads it runs on.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Names of the convolutions and linear layers with their algorithms, forward and backward.
    pub fn algorithms(&self) -> Vec<(&str, &'static str, Option<&'static str>)> {
        let nodes = self.graph.nodes();
        self.kernels
            .algorithms()
            .map(|(node, forward, backward)| (nodes[node].name.as_str(), forward, backward))
            .collect()
    }
}

impl Executor for Network {
    fn forward(&mut self, batch: &Batch) -> Result<Logits<'_>, ExecError> {
        self.state.ready = false;
        checks::check_extents(&self.graph, &self.plan, self.norm_mode(), batch)?;
        checks::check_images(batch)?;
        self.images = batch.images();
        self.run_forward(batch.values());
        checks::check_logits(self.logits())?;
        self.state.ready = true;
        Ok(self.logits())
    }

    fn forward_in_modes(&mut self, batch: &Batch, modes: [NormMode; 2]) -> Result<[Vec<f32>; 2], ExecError> {
        for mode in modes {
            self.set_norm_mode(mode)?;
            checks::check_extents(&self.graph, &self.plan, mode, batch)?;
        }
        checks::check_images(batch)?;
        self.images = batch.images();
        let (parting, end) = (self.parting(modes), self.plan.forward().len());
        self.set_norm_mode(modes[0])?;
        self.prepare_running_norms();
        self.run_steps(0..parting, batch.values());
        self.keep_live(parting);
        self.run_steps(parting..end, batch.values());
        let first = checks::check_logits(self.logits())?.values().to_vec();
        self.restore_live(parting);
        self.set_norm_mode(modes[1])?;
        self.prepare_running_norms();
        self.run_steps(parting..end, batch.values());
        let second = checks::check_logits(self.logits())?.values().to_vec();
        Ok([first, second])
    }

    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        let expected = self.images * self.num_classes();
        checks::check_backward(&self.plan, &mut self.state, logit_gradient, expected)?;
        self.run_backward(logit_gradient);
        checks::check_gradient(&self.state, &self.gradient)?;
        Ok(&self.gradient)
    }

    fn tap(&mut self, name: &str) -> Result<Tensor, ExecError> {
        let value = checks::find_tap(&self.graph, &self.plan, name)?;
        checks::check_predicted(self.images)?;
        let dims = self.plan.value(value).dims;
        let mut values = vec![0.0; self.images * dims.len()];
        self.read_value(value, &mut values);
        Ok(checks::tap_tensor(self.images, dims, values))
    }

    fn state(&self) -> &ExecutorState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ExecutorState {
        &mut self.state
    }

    fn absorb_statistics(&mut self) -> Result<(), ExecError> {
        checks::check_predicted(self.images)?;
        self.norms.iter_mut().for_each(Norm::absorb);
        Ok(())
    }

    fn reset_statistics(&mut self) -> Result<(), ExecError> {
        self.norms.iter_mut().for_each(Norm::restore);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), ExecError> {
        self.images = 0;
        self.times = None;
        self.reset_affine();
        self.reset_statistics()?;
        self.set_norm_mode(NormMode::Running)
    }
}

use super::{Emulator, Place, assert_close};
use crate::launch::loss::{LossCode, LossPlaces, RESULT_WORDS, loss, read_result};
use crate::launch::optimizer::{OptimizerPlaces, step};
use crate::precision::{Element, Precision};
use flipcast_adapt::{
    Adapter, Cpl, CplConfig, EntropyMargin, Eta, EtaConfig, OptimizerConfig, RedundancyMargin, Rpl, RplConfig, Tent,
    TentConfig,
};
use flipcast_executor::{ExecError, Executor, ExecutorState, Logits, StepLoss};
use flipcast_graph::{AffineTable, GraphBuilder, NormKind};
use flipcast_tensor::{Batch, Tensor};
use flipcast_testkit::Random;

const STEPS: usize = 5;
const PARAMS: usize = 300;

/// An executor that says what it is told to and notes what it is asked.
struct Script {
    logits: Vec<f32>,
    gradient: Vec<f32>,
    state: ExecutorState,
    asked: Option<Vec<f32>>,
}

impl Executor for Script {
    fn forward(&mut self, _: &Batch) -> Result<Logits<'_>, ExecError> {
        Ok(Logits::new(&self.logits, self.num_classes()))
    }
    fn backward(&mut self, logit_gradient: &[f32]) -> Result<&[f32], ExecError> {
        self.asked = Some(logit_gradient.to_vec());
        Ok(&self.gradient)
    }
    fn tap(&mut self, _: &str) -> Result<Tensor, ExecError> {
        unreachable!("no method here taps")
    }
    fn state(&self) -> &ExecutorState {
        &self.state
    }
    fn state_mut(&mut self) -> &mut ExecutorState {
        &mut self.state
    }
}

/// The table of a network with one norm of `PARAMS` parameters.
fn affine_table() -> AffineTable {
    let (mut g, x) = GraphBuilder::new(PARAMS / 2);
    let x = g.norm("bn", x, NormKind::Batch, 1e-5);
    let x = g.global_avg_pool("pool", x);
    let x = g.linear("fc", x, PARAMS / 2, 2);
    g.finish(x).unwrap().affine_table()
}

/// Logits of which a share is certain, some of them of one class that soon is redundant.
fn draw_logits(random: &mut Random, images: usize, classes: usize) -> Vec<f32> {
    let mut logits: Vec<f32> = (0..images * classes).map(|_| random.normal() as f32).collect();
    for (image, row) in logits.chunks_exact_mut(classes).enumerate() {
        let class = if image % 3 == 0 { 1 } else { random.below(classes) };
        row[class] += random.between(0.0, 12.0) as f32;
    }
    logits
}

fn words(result: &Place) -> [u32; RESULT_WORDS] {
    let (words, _) = result.bytes().as_chunks::<4>();
    std::array::from_fn(|at| u32::from_le_bytes(words[at]))
}

/// Runs an adapter on the host and its step on the emulator over the same logits and gradients; returns what was used.
fn follow(
    adapter: &mut dyn Adapter,
    (of, optimizer): (StepLoss, OptimizerConfig),
    [images, classes]: [usize; 2],
) -> Option<Vec<usize>> {
    let losses = Emulator::new("loss.cu", Precision::F32)?;
    let optimizers = Emulator::new("optimiser.cu", Precision::F32)?;
    let mut random = Random::new(23);
    let draw = |random: &mut Random| (0..PARAMS).map(|_| random.normal() as f32).collect::<Vec<f32>>();
    let affine = draw(&mut random);
    let batch = Batch::new([images, 1, 1, 1], vec![0.0; images]).unwrap();
    let mut net = Script {
        logits: Vec::new(),
        gradient: Vec::new(),
        state: ExecutorState::of_parts(affine_table(), affine.clone(), classes),
        asked: None,
    };
    let mut average = Place::new(Element::F64, classes);
    let [mut state, mut steps] = [2, 1].map(|len| Place::integers(&vec![0; len]));
    let mut rows = Place::new(Element::F64, 4 * images);
    let mut result = Place::new(Element::F64, RESULT_WORDS / 2);
    let mut logit_gradient = Place::new(Element::F32, images * classes);
    let mut params = Place::floats(&affine);
    let [mut first, mut second] = [(); 2].map(|()| Place::floats(&[0.0; PARAMS]));
    let mut used = Vec::new();
    for round in 0..STEPS {
        net.logits = draw_logits(&mut random, images, classes);
        if round == 2 {
            // Nothing is certain: a method that selects has nothing to do.
            net.logits.iter_mut().for_each(|z| *z *= 1e-3);
        }
        net.gradient = draw(&mut random);
        net.asked = None;
        let output = adapter.step(&mut net, &batch).unwrap();
        let said = (output.mean_entropy, output.reliable, output.used);
        let places = LossPlaces {
            average: average.slice(),
            state: state.slice(),
            rows: rows.slice(),
            result: result.slice(),
            steps: steps.slice(),
        };
        let mut logits = Place::floats(&net.logits);
        let (logits, to) = (logits.slice(), logit_gradient.slice());
        loss(&losses, LossCode::new(of).expect("it has a kernel"), [images, classes], logits, to, places).unwrap();
        let (found, broken) = read_result(words(&result));
        assert!(!broken);
        assert!((found.mean_entropy - said.0).abs() < 1e-12, "{found:?} {said:?}");
        assert_eq!((found.reliable, found.used), (said.1, said.2), "round {round}");
        match &net.asked {
            Some(asked) => assert_close("logit gradient", &logit_gradient.values(), asked, 1e-7),
            None => assert!(logit_gradient.values().iter().all(|&g| g == 0.0)),
        }
        let mut gradient = Place::floats(&net.gradient);
        let places = OptimizerPlaces {
            params: params.slice(),
            gradient: gradient.slice(),
            mask: None,
            first: first.slice(),
            second: second.slice(),
            steps: steps.slice(),
            result: result.slice(),
            pull: None,
        };
        step(&optimizers, optimizer, places).unwrap();
        assert_eq!(params.values(), net.affine(), "round {round}: to the last bit");
        used.push(found.used);
    }
    Some(used)
}

#[test]
fn tents_steps_are_those_of_the_host() {
    let config = TentConfig::imagenet();
    let mut tent = Tent::new(config.clone()).unwrap();
    follow(&mut tent, (StepLoss::MeanEntropy, config.optimizer), [7, 300]);
}

#[test]
fn etas_steps_are_those_of_the_host() {
    for (optimizer, classes) in [(OptimizerConfig::sgd(0.1), 10), (OptimizerConfig::adam(1e-3), 600)] {
        let config = EtaConfig {
            optimizer,
            redundancy_margin: RedundancyMargin::default(),
            entropy_margin: EntropyMargin::Share(0.4),
            ..EtaConfig::imagenet()
        };
        let of = StepLoss::SelectedEntropy {
            entropy_margin: config.entropy_margin.nats(classes),
            cosine_margin: config.redundancy_margin.cosine(classes),
        };
        let mut eta = Eta::new(config).unwrap();
        let Some(used) = follow(&mut eta, (of, optimizer), [40, classes]) else {
            return;
        };
        assert_eq!(used[2], 0, "{used:?}");
        assert!(used[0] > used[1] && used[4] > 0, "some are redundant, not all: {used:?}");
    }
}

#[test]
fn rpls_steps_are_those_of_the_host() {
    let config = RplConfig::cifar();
    let mut rpl = Rpl::new(config.clone()).unwrap();
    follow(&mut rpl, (StepLoss::GeneralizedCrossEntropy { power: config.q }, config.optimizer), [9, 100]);
}

#[test]
fn cpls_steps_are_those_of_the_host() {
    let config = CplConfig::cifar();
    let mut cpl = Cpl::new(config.clone()).unwrap();
    let of = StepLoss::ConjugatePoly { epsilon: config.epsilon };
    follow(&mut cpl, (of, config.optimizer), [9, 100]);
}

#[test]
fn a_logit_that_is_no_number_lets_nothing_move() {
    let Some(losses) = Emulator::new("loss.cu", Precision::F32) else {
        return;
    };
    let of = StepLoss::SelectedEntropy { entropy_margin: 50.0, cosine_margin: None };
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let (images, classes) = (3, 40);
        let mut logits = draw_logits(&mut Random::new(5), images, classes);
        logits[classes + 7] = bad;
        let mut logits = Place::floats(&logits);
        let mut gradient = Place::new(Element::F32, images * classes);
        let mut average = Place::doubles(&vec![0.5; classes]);
        let [mut state, mut steps] = [2, 1].map(|len| Place::integers(&vec![1; len]));
        let mut rows = Place::new(Element::F64, 4 * images);
        let mut result = Place::new(Element::F64, RESULT_WORDS / 2);
        let places = LossPlaces {
            average: average.slice(),
            state: state.slice(),
            rows: rows.slice(),
            result: result.slice(),
            steps: steps.slice(),
        };
        let (logits, to) = (logits.slice(), gradient.slice());
        loss(&losses, LossCode::new(of).expect("it has a kernel"), [images, classes], logits, to, places).unwrap();
        assert_eq!(read_result(words(&result)).0.used, 0, "{bad}");
        assert_eq!(average.bytes(), Place::doubles(&vec![0.5; classes]).bytes());
        assert_eq!(steps.bytes(), 1i32.to_le_bytes());
    }
}

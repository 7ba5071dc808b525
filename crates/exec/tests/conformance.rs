//! The executor against the double-precision reference: every operator and fusion, every norm mode, every instruction set.

use flipcast_exec::{Exactness, Executor, Isa, Network, NetworkOptions};
use flipcast_tensor::Batch;
use flipcast_testkit::{Case, ReferenceNorm, Subject, Suite, SuiteTolerance, cases, random_graph};

struct Cpu {
    isa: Isa,
    exactness: Exactness,
    threads: usize,
}

impl Cpu {
    fn network(&self, case: &Case, mode: ReferenceNorm) -> Network {
        let options = NetworkOptions {
            isa: Some(self.isa),
            exactness: self.exactness,
            threads: self.threads,
            ..NetworkOptions::adapt(case.batch_size, case.height, case.width)
        };
        let mut network = Network::new(&case.graph, &case.params, &options).expect("cases can be planned");
        network.set_norm_mode(mode.into()).expect("weights are in range");
        network
    }
}

impl Subject for Cpu {
    fn forward(&mut self, case: &Case, batch: &Batch, mode: ReferenceNorm) -> Vec<f32> {
        let mut network = self.network(case, mode);
        network.forward(batch).expect("finite cases").values().to_vec()
    }

    fn gradient(&mut self, case: &Case, batch: &Batch, mode: ReferenceNorm, logit_gradient: &[f32]) -> Vec<f32> {
        let mut network = self.network(case, mode);
        network.forward(batch).expect("finite cases");
        network.backward(logit_gradient).expect("finite gradients").to_vec()
    }
}

#[test]
fn every_instruction_set_conforms() {
    let suite = Suite::of(cases());
    for isa in Isa::available() {
        for exactness in [Exactness::Fast, Exactness::Direct] {
            let report = suite.run(&mut Cpu { isa, exactness, threads: 2 }, SuiteTolerance::default());
            println!("{isa:?} {exactness:?}: {report:?}");
            report.check();
        }
    }
}

#[test]
fn random_graphs_conform() {
    let suite = Suite::of((0..24).map(random_graph).collect());
    let isa = Isa::detect();
    let report = suite.run(&mut Cpu { isa, exactness: Exactness::Fast, threads: 2 }, SuiteTolerance::default());
    println!("{report:?}");
    report.check();
}

use flipcast_kernels::Isa;
use flipcast_kernels::internals::{Lanes, Task, erf, exp, gelu_slope, tanh};

#[derive(Clone, Copy)]
enum Function {
    Exp,
    Erf,
    Tanh,
    GeluSlope,
}

struct Map<'a>(&'a [f32], &'a mut [f32], Function);

impl Task for Map<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        for i in (0..self.0.len()).step_by(L::N) {
            // SAFETY: lengths are multiples of the largest lane count.
            unsafe {
                let x = L::load(self.0[i..].as_ptr());
                let y = match self.2 {
                    Function::Exp => exp::<L>(x),
                    Function::Erf => erf::<L>(x),
                    Function::Tanh => tanh::<L>(x),
                    Function::GeluSlope => gelu_slope::<L>(x),
                };
                L::store(self.1[i..].as_mut_ptr(), y);
            }
        }
    }
}

fn worst_relative(function: Function, low: f32, high: f32, exact: fn(f64) -> f64) -> f64 {
    let inputs: Vec<f32> = (0..65_536).map(|i| low + (high - low) * i as f32 / 65_536.0).collect();
    let mut worst = 0.0f64;
    for isa in Isa::available() {
        let mut outputs = vec![0.0; inputs.len()];
        isa.run(Map(&inputs, &mut outputs, function));
        for (&x, &y) in inputs.iter().zip(&outputs) {
            let expected = exact(f64::from(x));
            worst = worst.max((f64::from(y) - expected).abs() / expected.abs().max(1e-30));
        }
    }
    worst
}

#[test]
fn exp_is_within_two_ulp() {
    let worst = worst_relative(Function::Exp, -86.0, 87.0, f64::exp);
    assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
}

#[test]
fn erf_is_within_four_ulp() {
    let worst = worst_relative(Function::Erf, 0.001, 3.9, libm::erf);
    assert!(worst < 4.0 * f64::from(f32::EPSILON), "{worst:e}");
}

#[test]
fn tanh_is_within_three_ulp() {
    let worst = worst_relative(Function::Tanh, -12.0, -0.001, f64::tanh).max(worst_relative(
        Function::Tanh,
        0.001,
        12.0,
        f64::tanh,
    ));
    assert!(worst < 3.0 * f64::from(f32::EPSILON), "{worst:e}");
}

#[test]
fn gelu_slope_is_within_its_bound() {
    let exact = |z: f64| {
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2) + z * density
    };
    let inputs: Vec<f32> = (-40_000..40_000).map(|i| i as f32 / 4_000.0).collect();
    for isa in Isa::available() {
        let mut outputs = vec![0.0; inputs.len()];
        isa.run(Map(&inputs, &mut outputs, Function::GeluSlope));
        for (&z, &slope) in inputs.iter().zip(&outputs) {
            let error = (f64::from(slope) - exact(f64::from(z))).abs();
            assert!(error < 4e-7, "{error:e} at {z} with {isa:?}");
        }
    }
}

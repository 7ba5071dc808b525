//! Every kernel on every instruction set against its scalar twin or the definition in double precision.

mod attention;
mod chunks;
mod conv;
mod math;
mod multiply;
mod parity;
mod workers;

//! A *measurement* tells in about two seconds what this device gives to an engine: how fast it multiplies, and how fast it reads
//! memory that no cache holds. It says what was reached, not what would be possible.

use burn::tensor::Device;
use inferscope_core::{ModelError, Probe};

/// Milliseconds for each of the two.
const SPAN: f64 = 1000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// FLOP a second of a matrix product of 384 × 384 numbers, two for each multiplication.
    pub flops: f64,
    /// Bytes a second of reading 32 MiB of weights for a product with one row.
    pub bytes: f64,
}

/// `clock` tells milliseconds.
///
/// # Errors
/// When the device fails.
pub async fn measure(device: &Device, clock: impl Fn() -> f64) -> Result<Measured, ModelError> {
    let (arithmetic, memory) = (Probe::of_arithmetic(device), Probe::of_memory(device));
    let flops = arithmetic.flops() * a_second(&clock, &arithmetic).await?;
    let bytes = memory.bytes() * a_second(&clock, &memory).await?;
    Ok(Measured { flops, bytes })
}

/// How often a probe runs in a second, once the first time (which may prepare things) is over.
async fn a_second(clock: &impl Fn() -> f64, probe: &Probe) -> Result<f64, ModelError> {
    probe.run().await?;
    let begin = clock();
    let mut times = 0;
    loop {
        probe.run().await?;
        times += 1;
        let milliseconds = clock() - begin;
        if milliseconds >= SPAN {
            return Ok(f64::from(times) / (milliseconds / 1000.0));
        }
    }
}

//! A *probe* measures for about two seconds what this device gives to an engine: how fast it multiplies, and how fast it reads
//! memory that no cache holds. It says what was reached, not what would be possible.

use burn::tensor::{Device, Tensor};

/// Side of the square matrices that are multiplied, in f32.
const SIDE: usize = 384;
/// Numbers that are summed: 32 MiB, more than a processor's caches hold.
const NUMBERS: usize = 8 << 20;
/// Milliseconds for each of the two.
const SPAN: f64 = 1000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// FLOP a second of a matrix product of 384 × 384 numbers, two for each multiplication.
    pub flops: f64,
    /// Bytes a second of reading 32 MiB to sum them.
    pub bytes: f64,
}

/// `clock` tells milliseconds.
///
/// # Errors
/// When the device fails.
pub async fn measure(device: &Device, clock: impl Fn() -> f64) -> Result<Measured, String> {
    let matrix = Tensor::<2>::full([SIDE, SIDE], 0.05, device);
    let flops = 2.0 * (SIDE * SIDE * SIDE) as f64;
    let flops = rate(&clock, flops, async || last_number(matrix.clone().matmul(matrix.clone()).sum()).await).await?;
    let numbers = Tensor::<1>::ones([NUMBERS], device);
    let bytes = rate(&clock, 4.0 * NUMBERS as f64, async || last_number(numbers.clone().sum()).await).await?;
    Ok(Measured { flops, bytes })
}

/// How much of `work` is done a second, once the first time (which may prepare things) is over.
async fn rate(
    clock: &impl Fn() -> f64,
    work: f64,
    mut once: impl AsyncFnMut() -> Result<(), String>,
) -> Result<f64, String> {
    once().await?;
    let begin = clock();
    let mut times = 0;
    loop {
        once().await?;
        times += 1;
        let milliseconds = clock() - begin;
        if milliseconds >= SPAN {
            return Ok(work * f64::from(times) / (milliseconds / 1000.0));
        }
    }
}

/// Reading a result back waits for it to be there.
async fn last_number(sum: Tensor<1>) -> Result<(), String> {
    sum.into_data_async().await.map(drop).map_err(|error| format!("{error:?}"))
}

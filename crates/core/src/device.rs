//! A *device* holds tensors; here they are made on one, looked at, and read back, by the backend's own functions. burn's
//! front would do the same and bring along conversions between all kinds of numbers, which would be most of an engine's size.

use std::ops::Range;

use burn::backend::ops::{FloatTensorOps, IntTensorOps};
#[cfg(feature = "cpu")]
use burn::backend::{BackendTensor, DispatchTensorKind, Flex, tensor::FloatTensor};
use burn::backend::{Dispatch, DispatchTensor};
use burn::tensor::{Device, FloatDType, Int, Slice, Tensor, TensorData};

use crate::ModelError;

pub(crate) fn floats<const D: usize>(numbers: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::float_from_data(TensorData::new(numbers, shape), device.as_dispatch()))
}

/// Numbers of 32 bits, on every device alike.
pub(crate) fn integers(numbers: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let count = numbers.len();
    Tensor::from_dispatch(Dispatch::int_from_data(TensorData::new(numbers, [count]), device.as_dispatch()))
}

/// Room whose content means nothing.
pub(crate) fn room<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::float_empty(shape.into(), device.as_dispatch(), FloatDType::F32))
}

/// A part of a tensor, in the tensor's own memory.
pub(crate) fn view(tensor: &Tensor<1>, part: &Range<usize>) -> Tensor<1> {
    let part = Slice::new(part.start as isize, Some(part.end as isize), 1);
    Tensor::from_dispatch(Dispatch::float_slice(tensor.clone().into_dispatch(), &[part]))
}

const TAKEN: &str = "who takes a tensor puts it back before anybody else looks";

/// A tensor's place while operations that change it in place may take it out.
#[derive(Clone)]
pub(crate) struct Held<const D: usize>(Option<Tensor<D>>);

impl<const D: usize> Held<D> {
    pub fn new(tensor: Tensor<D>) -> Self {
        Self(Some(tensor))
    }

    pub fn get(&self) -> &Tensor<D> {
        self.0.as_ref().expect(TAKEN)
    }

    pub fn take(&mut self) -> Tensor<D> {
        self.0.take().expect(TAKEN)
    }

    pub fn put(&mut self, tensor: Tensor<D>) {
        self.0 = Some(tensor);
    }
}

/// Tensors to be read back, in one wait for all of them.
#[derive(Default)]
pub(crate) struct ReadBack(Vec<DispatchTensor>);

impl ReadBack {
    pub fn with<const D: usize>(mut self, tensor: Tensor<D>) -> Self {
        self.0.push(tensor.into_dispatch());
        self
    }

    /// # Errors
    /// When the device fails.
    pub async fn read(self) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut read = Vec::new();
        let mut elsewhere = Vec::new();
        for tensor in self.0 {
            match tensor.kind {
                // A processor's numbers are where they are needed, and nobody has to be waited for.
                #[cfg(feature = "cpu")]
                DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => read.push(in_memory(&tensor)),
                _ => elsewhere.push(tensor),
            }
        }
        #[cfg(feature = "wgpu")]
        read.extend(from_gpu(elsewhere).await?);
        #[cfg(not(feature = "wgpu"))]
        assert!(elsewhere.is_empty(), "this build knows no other device");
        Ok(read)
    }
}

#[cfg(feature = "cpu")]
fn in_memory(tensor: &FloatTensor<Flex>) -> Vec<f32> {
    tensor.as_slice::<f32>().expect("contiguous numbers of 32 bits").to_vec()
}

#[cfg(feature = "wgpu")]
async fn from_gpu(tensors: Vec<DispatchTensor>) -> Result<Vec<Vec<f32>>, ModelError> {
    use burn::backend::ops::{TransactionOps, TransactionPrimitive};

    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error: &dyn std::fmt::Display| ModelError::Device(error.to_string());
    let transaction = TransactionPrimitive::new(tensors, Vec::new(), Vec::new(), Vec::new());
    let data = Dispatch::tr_execute(transaction).await.map_err(|error| failed(&error))?.read_floats;
    data.iter().map(|data| Ok(data.as_slice::<f32>().map_err(|error| failed(&error))?.to_vec())).collect()
}

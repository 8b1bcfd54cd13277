//! A *matrix* here is a view of a slice as rows and columns, and its product with another one.
//!
//! The product itself is the gemm crate's, the same that burn's Flex backend uses, called directly so that results go
//! where they are needed, added to what is there where a gradient is summed.

/// `[rows, columns]`, any way round in memory.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Views a slice that holds one row of `columns` numbers after the other.
    pub fn new(data: &'a [f32], columns: usize) -> Self {
        assert!(data.len().is_multiple_of(columns), "whole rows");
        let rows = data.len() / columns;
        Self { data, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// The same numbers with rows as columns; nothing is moved.
    pub fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// What happens to the numbers that are in the destination already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Overwrite,
    Add,
}

/// destination = left · right, or destination += left · right. The destination is `[left.rows, right.columns]`, row after
/// row.
pub fn multiply(destination: &mut [f32], mode: Destination, left: Matrix, right: Matrix) {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    assert_eq!(inner, right.rows, "the matrices fit together");
    assert_eq!(destination.len(), rows * columns, "the product fits its destination");
    let read = mode == Destination::Add;
    // SAFETY: every index below rows, columns and inner lies in its slice: the constructor and the two lines above have
    // compared the sizes, and the destination is borrowed exclusively.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            destination.as_mut_ptr(),
            1,
            columns as isize,
            read,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_transposed_views_overwrite_or_add() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // [2, 3]
        let b = [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]; // [2, 3]
        let mut out = [100.0; 4];
        multiply(&mut out, Destination::Overwrite, Matrix::new(&a, 3), Matrix::new(&b, 3).transposed());
        assert_eq!(out, [7.0, 10.0, 16.0, 22.0]);
        multiply(&mut out, Destination::Add, Matrix::new(&a, 3), Matrix::new(&b, 3).transposed());
        assert_eq!(out, [14.0, 20.0, 32.0, 44.0]);
        let mut outer = [0.0; 9];
        multiply(&mut outer, Destination::Add, Matrix::new(&a, 3).transposed(), Matrix::new(&b, 3));
        assert_eq!(outer, [5.0, 0.0, 14.0, 7.0, 0.0, 19.0, 9.0, 0.0, 24.0]);
    }
}

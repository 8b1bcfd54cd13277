//! *Metrics* are the lengths that a picture is built from, in CSS pixels. Every other length follows from these and
//! from the model's shape.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Width that the picture may fill without scrolling.
    pub width: f32,
    /// Height of the space in which attention arrows rise.
    pub arrows_height: f32,
    /// Height of the slanted token labels under the arrows.
    pub labels_height: f32,
    /// Height of one layer's row of cells.
    pub row_height: f32,
    pub row_gap: f32,
    /// A planned column is no narrower than this: the picture scrolls instead.
    pub min_column: f32,
    pub max_column: f32,
    /// Share of the width that slots beyond the plan may take.
    pub spare_share: f32,
    /// Height of the position numbers under the grid.
    pub ruler_height: f32,
}

impl Metrics {
    pub fn for_width(width: f32) -> Self {
        let narrow = width < 560.0;
        Self {
            width: width.max(200.0),
            arrows_height: if narrow { 76.0 } else { 92.0 },
            labels_height: 48.0,
            row_height: if narrow { 30.0 } else { 36.0 },
            row_gap: 5.0,
            min_column: 12.0,
            max_column: 24.0,
            spare_share: 0.16,
            ruler_height: 18.0,
        }
    }

    /// Top of the grid's first row.
    pub fn grid_top(&self) -> f32 {
        self.arrows_height + self.labels_height
    }

    /// Top of the row of `layer`.
    pub fn row_top(&self, layer: usize) -> f32 {
        self.grid_top() + layer as f32 * (self.row_height + self.row_gap)
    }
}

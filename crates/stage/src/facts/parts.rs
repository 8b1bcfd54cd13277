//! A *part* is an accelerator as its maker describes it.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub id: &'static str,
    pub title: &'static str,
    /// In 10⁹ bytes.
    pub memory_gb: f64,
    /// In 10⁹ bytes a second.
    pub bandwidth_gbs: f64,
    /// Dense bf16 arithmetic in 10¹² FLOP a second. Makers often print the figure with 2:4 sparsity, which is twice as high
    /// and is not used here.
    pub bf16_tflops: f64,
}

impl Part {
    /// FLOP per byte above which arithmetic is the limit, and below which memory is.
    pub fn ridge(&self) -> f64 {
        self.peak() / self.bandwidth()
    }

    /// FLOP a second.
    pub fn peak(&self) -> f64 {
        self.bf16_tflops * 1e12
    }

    /// Bytes a second.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth_gbs * 1e9
    }
}

/// What a probe measured of the reader's own device: it stands among the parts, and is no published figure.
pub fn this_device(flops: f64, bytes: f64) -> Part {
    row("this", "This device, measured", 0.0, bytes / 1e9, flops / 1e12)
}

const fn row(id: &'static str, title: &'static str, memory_gb: f64, bandwidth_gbs: f64, bf16_tflops: f64) -> Part {
    Part { id, title, memory_gb, bandwidth_gbs, bf16_tflops }
}

/// By the makers' data sheets.
pub const PARTS: &[Part] = &[
    row("h100", "NVIDIA H100 SXM", 80.0, 3350.0, 989.0),
    row("a100", "NVIDIA A100 80 GB SXM", 80.0, 2039.0, 312.0),
    row("h200", "NVIDIA H200 SXM", 141.0, 4800.0, 989.0),
    row("b200", "NVIDIA B200", 180.0, 8000.0, 2250.0),
    row("mi300x", "AMD MI300X", 192.0, 5300.0, 1307.0),
    row("rtx4090", "NVIDIA RTX 4090", 24.0, 1008.0, 165.0),
    row("l4", "NVIDIA L4", 24.0, 300.0, 121.0),
];

/// The part of that id.
pub fn part(id: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ridges_are_those_of_the_table() {
        let expected = [
            ("a100", 153),
            ("h100", 295),
            ("h200", 206),
            ("b200", 281),
            ("mi300x", 247),
            ("rtx4090", 164),
            ("l4", 403),
        ];
        for (id, ridge) in expected {
            assert_eq!(part(id).unwrap().ridge().round() as u64, ridge, "{id}");
        }
        assert_eq!(expected.len(), PARTS.len());
    }
}

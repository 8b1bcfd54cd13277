//! A *control* says which values a rule takes and how a reader may choose among them.

/// How a control spreads its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Equal distances are equal ratios; only for controls whose `min` is above 0.
    Log,
}

/// The range of a rule's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    pub min: f64,
    pub max: f64,
    /// The smallest change a reader can make. Values between steps are allowed.
    pub step: f64,
    /// Where the control stands at first.
    pub default: f64,
    /// The value that changes nothing.
    pub neutral: f64,
    pub scale: Scale,
}

impl Control {
    /// The nearest value in range; the neutral one for NaN.
    pub fn clamp(&self, value: f64) -> f64 {
        // Not the standard library's: that one says of a wrong range which, and brings the writing of decimals along.
        if value.is_nan() { self.neutral } else { value.max(self.min).min(self.max) }
    }
}

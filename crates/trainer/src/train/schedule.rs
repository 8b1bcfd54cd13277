//! The *schedule* is the learning rate of every step: a short warm-up, a long stretch at the peak, and a straight line
//! down over the last part (warm-up–stable–decay; Hu et al. 2024, "MiniCPM").

/// Steps of warm-up.
const WARM_UP: u64 = 100;
/// Part of all steps in which the rate falls.
const DECAY: f64 = 0.4;
/// What is left of the rate at the end.
const FLOOR: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    pub peak: f64,
    pub steps: u64,
}

impl Schedule {
    /// The rate of a step, counted from 0.
    pub fn rate(&self, step: u64) -> f64 {
        let warm_up = (step + 1) as f64 / WARM_UP as f64;
        let left = 1.0 - step as f64 / self.steps as f64;
        self.peak * warm_up.min(1.0) * (left / DECAY + FLOOR).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_stays_and_falls() {
        let schedule = Schedule { peak: 0.01, steps: 10_000 };
        assert!((schedule.rate(0) - 0.0001).abs() < 1e-9);
        assert_eq!(schedule.rate(99), 0.01);
        assert_eq!(schedule.rate(6_000), 0.01);
        assert!((schedule.rate(8_000) - 0.0052).abs() < 1e-9);
        assert!(schedule.rate(9_999) < 0.000_21 && schedule.rate(9_999) > 0.000_19);
    }
}

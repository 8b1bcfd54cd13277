//! A *preset* is a ready-made choice of sampling settings, with a sentence that says honestly what it is like.

use inferscope_sampler::RULES;
use inferscope_trace::Sampling;

#[derive(Debug)]
pub struct Preset {
    pub id: &'static str,
    pub title: &'static str,
    pub sentence: &'static str,
    /// Rules not named are neutral.
    values: &'static [(&'static str, f64)],
}

pub const PRESETS: &[Preset] = &[
    Preset {
        id: "greedy",
        title: "Greedy",
        sentence: "Always the best token. The safest text, the same every time, and soon the dullest.",
        values: &[("temperature", 0.0)],
    },
    Preset {
        id: "balanced",
        title: "Balanced",
        sentence: "A little sharper than the model’s own odds, without the tail that rarely makes sense. A common default.",
        values: &[("temperature", 0.8), ("top_p", 0.95)],
    },
    Preset {
        id: "own",
        title: "As learned",
        sentence: "The model’s own odds, nothing cut. Varied, and now and then a slip.",
        values: &[("temperature", 1.0)],
    },
    Preset {
        id: "wild",
        title: "Wild",
        sentence: "Flattened odds, nothing cut. Surprising for a few words; then words that are none, and no way back.",
        values: &[("temperature", 1.6)],
    },
];

impl Preset {
    /// A value for every rule, for a vocabulary of this size.
    pub fn sampling(&self, vocab_size: usize) -> Sampling {
        RULES.iter().fold(Sampling::default(), |sampling, rule| {
            let set = self.values.iter().find(|(id, _)| *id == rule.id()).map(|(_, value)| *value);
            sampling.with(rule.id(), set.unwrap_or(rule.control(vocab_size).neutral))
        })
    }

    /// The settings are this preset's.
    pub fn is(&self, sampling: &Sampling, vocab_size: usize) -> bool {
        let own = self.sampling(vocab_size);
        RULES.iter().all(|rule| {
            let neutral = rule.control(vocab_size).neutral;
            sampling.get(rule.id()).unwrap_or(neutral) == own.get(rule.id()).unwrap_or(neutral)
        })
    }
}

#[cfg(test)]
mod tests {
    use inferscope_sampler::Distribution;

    use super::*;

    const LOGITS: [f32; 6] = [3.0, 2.5, 1.0, 0.0, -2.0, -6.0];

    #[test]
    fn every_preset_names_rules_that_there_are_and_is_itself_alone() {
        for preset in PRESETS {
            assert!(preset.values.iter().all(|(id, _)| inferscope_sampler::rule(id).is_some()), "{}", preset.id);
            let sampling = preset.sampling(6);
            let matching: Vec<&str> = PRESETS.iter().filter(|it| it.is(&sampling, 6)).map(|it| it.id).collect();
            assert_eq!(matching, [preset.id]);
        }
    }

    #[test]
    fn they_stand_from_the_narrowest_to_the_most_open() {
        let entropies: Vec<f64> =
            PRESETS.iter().map(|it| Distribution::new(&LOGITS, &it.sampling(6)).entropy()).collect();
        assert!(entropies.windows(2).all(|pair| pair[0] < pair[1]), "{entropies:?}");
        assert_eq!(entropies[0], 0.0);
    }
}

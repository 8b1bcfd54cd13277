//! An *induction head* finds where the present token stood before and looks at what came after it then (Olsson et al. 2022,
//! "In-context Learning and Induction Heads"). A name that was made up for one story can be continued in no other way.

use anyhow::Result;
use inferscope_core::{LanguageModel, Model};
use inferscope_trace::TokenId;

use super::reading::read;

/// A story as BOS and tokens, and its made-up name's tokens.
pub struct Named {
    pub tokens: Vec<TokenId>,
    pub name: Vec<TokenId>,
}

/// For each layer and head, the mean weight on what followed the like token in earlier mentions, summed over those
/// mentions, for all tokens but the last of every repeated mention. `[layer][head]`, each from 0 to 1.
pub fn scores(model: &Model, stories: &[Named]) -> Result<Vec<Vec<f64>>> {
    let (n_layers, n_heads) = (model.info().n_layers, model.info().n_heads);
    let mut sums = vec![vec![0.0; n_heads]; n_layers];
    let mut queries = 0;
    for Named { tokens, name } in stories {
        let lookups = look_back(tokens, name);
        if lookups.is_empty() {
            continue;
        }
        let readings = read(model, tokens, true)?;
        for (query, keys) in lookups {
            let Some(attention) = readings.get(query).and_then(|reading| reading.attention.as_ref()) else { continue };
            for (layer, heads) in sums.iter_mut().enumerate() {
                for (head, sum) in heads.iter_mut().enumerate() {
                    let row = (layer * n_heads + head) * attention.keys;
                    *sum += keys.iter().map(|key| f64::from(attention.weights[row + key])).sum::<f64>();
                }
            }
            queries += 1;
        }
    }
    anyhow::ensure!(queries > 0, "no story mentions its made-up name twice");
    sums.iter_mut().flatten().for_each(|sum| *sum /= f64::from(queries));
    Ok(sums)
}

/// Positions of queries within repeated mentions, each with the keys that an induction head looks at.
fn look_back(tokens: &[TokenId], name: &[TokenId]) -> Vec<(usize, Vec<usize>)> {
    let mentions: Vec<usize> =
        tokens.windows(name.len()).enumerate().filter(|(_, window)| *window == name).map(|(at, _)| at).collect();
    let within = 0..name.len().saturating_sub(1);
    let mut lookups = Vec::new();
    for (nth, mention) in mentions.iter().enumerate().skip(1) {
        let earlier = &mentions[..nth];
        lookups.extend(within.clone().map(|i| (mention + i, earlier.iter().map(|start| start + i + 1).collect())));
    }
    lookups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_mentions_look_back_at_what_followed() {
        //            0  1  2  3  4  5  6  7  8  9
        let tokens = [1, 7, 8, 5, 7, 8, 9, 7, 8, 7];
        assert_eq!(look_back(&tokens, &[7, 8]), [(4, vec![2]), (7, vec![2, 5])]);
        assert_eq!(look_back(&tokens, &[9]), []);
    }
}

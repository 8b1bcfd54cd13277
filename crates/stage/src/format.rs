//! Numbers as readers like them: short, with a unit, never rounded into a lie.

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits with a decimal prefix: `38.4 M`; below 1,000 the number itself.
pub fn short(number: u64) -> String {
    scaled(number as f64, 1000.0, &["", " k", " M", " G", " T", " P"])
}

/// Bytes in binary units: `12.5 KiB`.
pub fn bytes(number: u64) -> String {
    scaled(number as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB"])
}

/// A number below 10¹⁵ in size with so many decimals, as `{:.decimals$}` would write it; the standard library's own way is
/// exact for any number and brings 20 kB of code and tables along.
pub fn fixed(number: f64, decimals: usize) -> String {
    let scale = 10u64.pow(decimals as u32);
    let scaled = (number.abs() * scale as f64).round() as u64;
    let sign = if number < 0.0 && scaled > 0 { "-" } else { "" };
    let whole = scaled / scale;
    match decimals {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{:0decimals$}", scaled % scale),
    }
}

/// A length in a picture, in CSS pixels.
pub fn tenths(length: f32) -> String {
    fixed(f64::from(length), 1)
}

fn scaled(number: f64, base: f64, units: &[&str]) -> String {
    let mut value = number;
    let mut unit = 0;
    // 999.5 would be written as 1000.
    while value > base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = if unit == 0 { 0 } else { decimals(value) };
    format!("{}{}", fixed(value, digits), units[unit])
}

fn decimals(value: f64) -> usize {
    match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

/// Milliseconds with three significant digits: `0.482 ms`, `12.5 ms`, `1.20 s`, `43.3 min`.
pub fn milliseconds(value: f64) -> String {
    if value >= 119_500.0 {
        let minutes = value / 60_000.0;
        return format!("{} min", fixed(minutes, decimals(minutes)));
    }
    if value >= 999.5 {
        let seconds = value / 1000.0;
        return format!("{} s", fixed(seconds, decimals(seconds)));
    }
    let digits = if value < 0.9995 { 3 } else { decimals(value) };
    format!("{} ms", fixed(value, digits))
}

/// `37.5 %`; small but not zero becomes `< 0.1 %`.
pub fn percent(share: f32) -> String {
    let value = share * 100.0;
    match value {
        v if v > 0.0 && v < 0.05 => "< 0.1 %".into(),
        v if v > 99.95 && v < 100.0 => "> 99.9 %".into(),
        v => format!("{} %", fixed(f64::from(v), 1)),
    }
}

/// A ratio: `1.8×`, `30×`.
pub fn times(ratio: f64) -> String {
    format!("{}×", fixed(ratio, usize::from(ratio < 9.95)))
}

/// A token as a label on one line: white space becomes visible.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            ' ' => out.push('\u{2423}'),
            '\n' => out.push('\u{23CE}'),
            '\t' => out.push('\u{21E5}'),
            '\r' => out.push('\u{240D}'),
            other if other.is_control() => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well_at_every_size() {
        assert_eq!([short(0), short(999), short(1000), short(38_412_345)], ["0", "999", "1.00 k", "38.4 M"]);
        assert_eq!([bytes(1023), bytes(12_800), bytes(4_162_048)], ["1023 B", "12.5 KiB", "3.97 MiB"]);
        assert_eq!(
            [milliseconds(0.4821), milliseconds(12.53), milliseconds(1204.0), milliseconds(2_596_000.0)],
            ["0.482 ms", "12.5 ms", "1.20 s", "43.3 min"]
        );
        assert_eq!([grouped(7), grouped(1234567)], ["7", "1,234,567"]);
        assert_eq!(
            [percent(0.375), percent(0.0001), percent(0.0), percent(1.0)],
            ["37.5 %", "< 0.1 %", "0.0 %", "100.0 %"]
        );
        assert_eq!([times(1.84), times(30.2)], ["1.8×", "30×"]);
    }

    #[test]
    fn fixed_writes_what_the_standard_library_writes() {
        for number in [0.0, 0.04, 0.05, 0.96, 1.0, 12.34, -0.04, -7.89, 99.99, 123_456.789] {
            for decimals in 0..4 {
                let expected = format!("{number:.decimals$}");
                let expected = if expected.trim_matches(['-', '0', '.']).is_empty() {
                    expected.replace('-', "")
                } else {
                    expected
                };
                assert_eq!(fixed(number, decimals), expected, "{number} with {decimals} decimals");
            }
        }
    }

    #[test]
    fn white_space_shows() {
        assert_eq!(visible(" a\n"), "␣a⏎");
    }
}

//! Colours of weights, light on dark or dark on light.
//!
//! A ramp is a path through OKLCH, the cylinder of lightness, chroma and hue over Ottosson's OKLab ("A perceptual color
//! space for image processing", 2020), in which equal distances look about equal. Its lightness falls (or, on dark
//! ground, rises) *in proportion to the weight*: so a step of a tenth looks the same wherever it is taken, and the order of
//! weights is seen by eyes that tell no hues apart, and on grey paper. The hue goes along, from blue-green to violet on
//! light ground, from violet over green to yellow on dark, to help those that do.
//!
//! Numbers with a sign get two such ramps that meet at 0, in the ground of the picture: blue for what is less, red for what
//! is more, hues that every common kind of colour vision tells apart. As far from 0 on either side is as light.
//!
//! What has no weight has no hue: a masked cell is grey and hatched, so that it cannot be taken for a weight of 0, which
//! is the ramp's own end. A weight that is no number is orange, a hue that neither ramp has.

/// A colour of sRGB, 0 to 255 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour {
    pub red: u8,
    pub green: u8,
    pub blue: u8,
}

impl Colour {
    /// As written in CSS and SVG: `#0a1b2c`.
    pub fn hexadecimal(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }
}

/// What a picture is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Theme {
    /// Dark weights on light ground.
    Light,
    /// Light weights on dark ground.
    Dark,
}

/// The colours of a picture that show no weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    pub ground: Colour,
    pub text: Colour,
    /// Text that matters less, and lines.
    pub faint: Colour,
    pub masked: Colour,
    /// The lines across masked cells.
    pub hatch: Colour,
    /// A weight that is NaN.
    pub not_a_number: Colour,
}

/// A ramp: lightness and hue (in degrees) at a weight of 0 and at one of 1.
struct Ramp {
    lightness: [f64; 2],
    hue: [f64; 2],
    /// By the weight; as much as sRGB holds at every lightness of the path, with something to spare.
    chroma: fn(f64) -> f64,
}

const ON_LIGHT: Ramp = Ramp {
    lightness: [0.975, 0.27],
    hue: [210.0, 285.0],
    chroma: |weight| 0.015 + 0.13 * (0.75 * std::f64::consts::PI * weight).sin(),
};

const ON_DARK: Ramp = Ramp { lightness: [0.20, 0.94], hue: [285.0, 100.0], chroma: |weight| 0.05 + 0.065 * weight };

/// The hues of numbers below 0 and above it.
const SIGNS: [f64; 2] = [255.0, 30.0];
/// Lightness and chroma of numbers with a sign, by their distance from 0.
const AWAY_ON_LIGHT: Away = Away { lightness: [0.975, 0.40], chroma: 0.13 };
const AWAY_ON_DARK: Away = Away { lightness: [0.20, 0.78], chroma: 0.11 };

struct Away {
    lightness: [f64; 2],
    /// The largest.
    chroma: f64,
}

impl Theme {
    /// The colour of a weight from 0 to 1; what lies beyond is drawn as the nearer end.
    pub fn weight(self, weight: f64) -> Colour {
        let weight = weight.clamp(0.0, 1.0);
        let ramp = match self {
            Theme::Light => ON_LIGHT,
            Theme::Dark => ON_DARK,
        };
        let between = |[start, end]: [f64; 2]| start + (end - start) * weight;
        oklch(between(ramp.lightness), (ramp.chroma)(weight), between(ramp.hue))
    }

    /// The colour of a number from -1 to 1; what lies beyond is drawn as the nearer end.
    pub fn signed(self, value: f64) -> Colour {
        let away = match self {
            Theme::Light => AWAY_ON_LIGHT,
            Theme::Dark => AWAY_ON_DARK,
        };
        away.colour(value.clamp(-1.0, 1.0))
    }

    pub fn palette(self) -> Palette {
        let grey = |lightness| oklch(lightness, 0.0, 0.0);
        match self {
            Theme::Light => Palette {
                ground: grey(1.0),
                text: grey(0.22),
                faint: grey(0.5),
                masked: grey(0.9),
                hatch: grey(0.74),
                not_a_number: oklch(0.7, 0.17, 55.0),
            },
            Theme::Dark => Palette {
                ground: grey(0.16),
                text: grey(0.93),
                faint: grey(0.68),
                masked: grey(0.3),
                hatch: grey(0.45),
                not_a_number: oklch(0.7, 0.17, 55.0),
            },
        }
    }
}

impl Away {
    fn path(&self, value: f64) -> [f64; 3] {
        let [start, end] = self.lightness;
        let far = value.abs();
        // Faster than the distance at first, so that a small number has a hue already.
        let chroma = self.chroma * (std::f64::consts::FRAC_PI_2 * far).sin();
        [start + (end - start) * far, chroma, SIGNS[usize::from(value > 0.0)]]
    }

    fn colour(&self, value: f64) -> Colour {
        let [lightness, chroma, hue] = self.path(value);
        oklch(lightness, chroma, hue)
    }
}

fn oklch(lightness: f64, chroma: f64, hue: f64) -> Colour {
    let [red, green, blue] = linear(lightness, chroma, hue).map(|channel| (255.0 * gamma(channel)).round() as u8);
    Colour { red, green, blue }
}

/// OKLCH to linear sRGB, with the matrices of Ottosson 2020.
fn linear(lightness: f64, chroma: f64, hue: f64) -> [f64; 3] {
    let (sine, cosine) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cosine, chroma * sine);
    let long = (lightness + 0.3963377774 * a + 0.2158037573 * b).powi(3);
    let medium = (lightness - 0.1055613458 * a - 0.0638541728 * b).powi(3);
    let short = (lightness - 0.0894841775 * a - 1.2914855480 * b).powi(3);
    [
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    ]
}

/// The transfer function of sRGB (IEC 61966-2-1).
fn gamma(channel: f64) -> f64 {
    match channel.clamp(0.0, 1.0) {
        low if low <= 0.0031308 => 12.92 * low,
        channel => 1.055 * channel.powf(1.0 / 2.4) - 0.055,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEMES: [Theme; 2] = [Theme::Light, Theme::Dark];

    fn degamma(byte: u8) -> f64 {
        let channel = f64::from(byte) / 255.0;
        if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    }

    /// Linear sRGB to OKLab, with the inverse matrices of Ottosson 2020.
    fn oklab([red, green, blue]: [f64; 3]) -> [f64; 3] {
        let long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue).max(0.0).cbrt();
        let medium = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue).max(0.0).cbrt();
        let short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue).max(0.0).cbrt();
        [
            0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
        ]
    }

    fn lines(colour: Colour) -> [f64; 3] {
        [colour.red, colour.green, colour.blue].map(degamma)
    }

    /// What is left of a colour for eyes that lack a kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
    const DEFICIENCIES: [(&str, [[f64; 3]; 3]); 4] = [
        ("none", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        ),
        (
            "deuteranopia",
            [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        ),
        (
            "tritanopia",
            [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
        ),
    ];

    fn seen_by(matrix: &[[f64; 3]; 3], colour: Colour) -> [f64; 3] {
        let [red, green, blue] = lines(colour);
        oklab(matrix.map(|row| row[0] * red + row[1] * green + row[2] * blue))
    }

    #[test]
    fn a_tenth_of_a_weight_is_the_same_step_of_lightness_everywhere_on_the_ramp() {
        for theme in THEMES {
            let lightness = |tenth: u32| oklab(lines(theme.weight(f64::from(tenth) / 10.0)))[0];
            let whole = lightness(10) - lightness(0);
            assert!(whole.abs() > 0.65, "{theme:?}: {whole}");
            for tenth in 0..10 {
                let step = (lightness(tenth + 1) - lightness(tenth)) / whole;
                assert!((step - 0.1).abs() < 0.006, "{theme:?}: step {tenth} is {step} of the whole");
            }
        }
    }

    #[test]
    fn the_order_of_weights_is_seen_without_any_kind_of_cone() {
        for (name, matrix) in &DEFICIENCIES {
            for theme in THEMES {
                let lightness = |twentieth: u32| seen_by(matrix, theme.weight(f64::from(twentieth) / 20.0))[0];
                let sign = (lightness(20) - lightness(0)).signum();
                for at in 0..20 {
                    let step = sign * (lightness(at + 1) - lightness(at));
                    assert!(step > 0.015, "{name}, {theme:?}: a step of {step} at {at} of 20");
                }
            }
        }
    }

    #[test]
    fn every_colour_of_a_ramp_lies_within_srgb() {
        for ramp in [ON_LIGHT, ON_DARK] {
            for percent in 0..=100 {
                let weight = f64::from(percent) / 100.0;
                let between = |[start, end]: [f64; 2]| start + (end - start) * weight;
                let channels = linear(between(ramp.lightness), (ramp.chroma)(weight), between(ramp.hue));
                assert!(channels.iter().all(|&channel| (-1e-6..=1.0).contains(&channel)), "{percent}: {channels:?}");
            }
        }
        for away in [AWAY_ON_LIGHT, AWAY_ON_DARK] {
            for percent in -100..=100 {
                let [lightness, chroma, hue] = away.path(f64::from(percent) / 100.0);
                let channels = linear(lightness, chroma, hue);
                assert!(channels.iter().all(|&channel| (-1e-6..=1.0).contains(&channel)), "{percent}: {channels:?}");
            }
        }
    }

    #[test]
    fn more_and_less_are_told_apart_by_all_eyes_and_are_as_light() {
        let distance = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        for (name, matrix) in &DEFICIENCIES {
            for theme in THEMES {
                for tenth in 1..=10 {
                    let value = f64::from(tenth) / 10.0;
                    let [less, none, more] = [-value, 0.0, value].map(|value| seen_by(matrix, theme.signed(value)));
                    let apart = distance(less, more);
                    assert!(apart > 0.1 * value.min(0.5), "{name}, {theme:?}: {value} and -{value} are {apart} apart");
                    for side in [less, more] {
                        let seen = (side[0] - none[0]).abs();
                        assert!(seen > 0.04 * f64::from(tenth), "{name}, {theme:?}: {value} is {seen} from 0");
                    }
                }
            }
        }
        for theme in THEMES {
            let lightness = |value: f64| oklab(lines(theme.signed(value)))[0];
            for tenth in 1..=10 {
                let value = f64::from(tenth) / 10.0;
                assert!((lightness(value) - lightness(-value)).abs() < 0.01, "{theme:?}: {value}");
            }
            assert_eq!((theme.signed(-7.0), theme.signed(7.0)), (theme.signed(-1.0), theme.signed(1.0)));
            let masked = oklab(lines(theme.palette().masked));
            assert!(distance(masked, oklab(lines(theme.signed(0.0)))) > 0.05, "{theme:?}: 0 looks masked");
        }
    }

    #[test]
    fn what_is_no_weight_differs_from_every_weight_for_all_eyes() {
        let distance = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        for (name, matrix) in &DEFICIENCIES {
            for theme in THEMES {
                let palette = theme.palette();
                let zero = seen_by(matrix, theme.weight(0.0));
                assert!(distance(zero, seen_by(matrix, palette.masked)) > 0.05, "{name}, {theme:?}: 0 looks masked");
                let hatched = distance(seen_by(matrix, palette.masked), seen_by(matrix, palette.hatch));
                assert!(hatched > 0.1, "{name}, {theme:?}: the hatching is not seen ({hatched})");
            }
        }
        for theme in THEMES {
            let fault = oklab(lines(theme.palette().not_a_number));
            let nearest =
                (0..=100).map(|percent| distance(fault, oklab(lines(theme.weight(f64::from(percent) / 100.0)))));
            assert!(nearest.fold(f64::INFINITY, f64::min) > 0.1, "{theme:?}: NaN looks like a weight");
        }
    }

    #[test]
    fn weights_beyond_the_scale_are_drawn_as_its_ends() {
        for theme in THEMES {
            assert_eq!(theme.weight(-3.0), theme.weight(0.0));
            assert_eq!(theme.weight(5.0), theme.weight(1.0));
            assert_ne!(theme.weight(0.0), theme.weight(1.0 / 8.0));
        }
        assert_eq!(Theme::Light.palette().ground.hexadecimal(), "#ffffff");
    }
}

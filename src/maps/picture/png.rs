//! A picture as PNG.

use super::colour::Theme;
use super::drawing::Drawing;
use super::raster::Raster;

/// The PNG of a picture.
///
/// # Errors
/// A picture of more pixels than the format holds.
pub fn png(drawing: &Drawing, theme: Theme) -> Result<Vec<u8>, png::EncodingError> {
    let raster = Raster::of(drawing, theme);
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side(raster.width), side(raster.height));
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_itxt_chunk("Title".into(), drawing.title.clone())?;
    encoder.write_header()?.write_image_data(&raster.pixels)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::Letters;
    use crate::maps::picture::cells::Scale;
    use crate::maps::picture::examples::{alone, causal, text};

    #[test]
    fn a_png_reads_back_as_the_pixels_it_was_made_of() {
        let maps = text(&["a", " ", "\n"], vec![causal(3, 3)]);
        let drawing = Drawing::of(&[alone(&maps)], Scale::Fixed, &["a note".into()], Letters::Drawn);
        let bytes = png(&drawing, Theme::Dark).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, Raster::of(&drawing, Theme::Dark).pixels);
        assert_eq!(reader.info().utf8_text[0].get_text().unwrap(), drawing.title);
    }
}

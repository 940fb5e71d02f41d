//! Zstandard: all frames of a stream in sequence. The decoder handles a single frame, and builders write several, with
//! skippable frames between them.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::error::refused;

/// Header of a frame with the smallest window. The decoder checks the window of a frame against its own limit (100 MiB) only
/// after an earlier frame; without this one the first frame could request terabytes of memory.
const SMALLEST_FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00];

/// Decoded content of a stream of frames.
pub(crate) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Frames<R> {
    pub(crate) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.reset(SMALLEST_FRAME.as_slice()).expect("this header is valid");
        Self { source, decoder, within: false }
    }

    /// Advances to the next frame with content; returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(refused("the zstd stream ends in the middle"));
                    }
                }
                Err(error) => return Err(refused(format!("it is not a zstd stream: {error}"))),
            }
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.within {
                self.within = self.next_frame()?;
                if !self.within {
                    return Ok(0);
                }
            }
            // A block is at most 128 KiB, so this ends soon, whatever the compression.
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded =
                    self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(|error| refused(format!("the zstd stream is broken: {error}")))?;
            }
            match self.decoder.read(buffer)? {
                0 => self.within = false,
                read => return Ok(read),
            }
        }
    }
}

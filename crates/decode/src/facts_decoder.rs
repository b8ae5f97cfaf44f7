//! A decoder that also collects the facts that trackers need.
//!
//! In: a piece of one transaction, or a slice of one, and the catalog of its epoch. Out: its row changes and its
//! [`Facts`]. Never here: the decision which transaction waits for which.

use catalog::Catalog;

use crate::decode::{DecodeOptions, Decoder};
use crate::piece::{DecodedPiece, Piece, SpareBuffers};
use crate::trackers::{Extractor, Facts};

/// The work of a decoder thread.
pub trait DecodePiece {
    /// Result of decoding one piece.
    type Decoded: Send + 'static;

    /// Takes the buffers of a completed piece for reuse.
    fn recycle(&mut self, spare: SpareBuffers);

    /// Decodes a piece under the catalog of its epoch.
    fn decode(&mut self, piece: Piece, catalog: &Catalog, version: u64) -> Self::Decoded;
}

impl DecodePiece for Decoder {
    type Decoded = DecodedPiece;

    fn recycle(&mut self, spare: SpareBuffers) {
        self.recycle(spare);
    }

    fn decode(&mut self, piece: Piece, catalog: &Catalog, version: u64) -> DecodedPiece {
        self.decode(piece, catalog, version)
    }
}

/// Decodes pieces and collects their facts. One per thread.
pub struct FactsDecoder {
    decoder: Decoder,
    extractor: Extractor,
    needs_claims: bool,
}

impl FactsDecoder {
    /// Creates a decoder. Claims are extracted only if a tracker needs them.
    #[must_use]
    pub fn new(options: DecodeOptions, needs_claims: bool) -> FactsDecoder {
        FactsDecoder { decoder: Decoder::new(options), extractor: Extractor::default(), needs_claims }
    }
}

impl DecodePiece for FactsDecoder {
    type Decoded = (DecodedPiece, Facts);

    fn recycle(&mut self, spare: SpareBuffers) {
        self.decoder.recycle(spare);
    }

    fn decode(&mut self, piece: Piece, catalog: &Catalog, version: u64) -> (DecodedPiece, Facts) {
        let decoded = self.decoder.decode(piece, catalog, version);
        let facts = if self.needs_claims && !decoded.needs_serial {
            Facts::with_claims(&decoded, &mut self.extractor, catalog, None)
        } else {
            Facts::of(&decoded)
        };
        (decoded, facts)
    }
}

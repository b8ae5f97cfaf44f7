//! Pieces that come from no transaction of the log: what else changes the catalog.
//!
//! In: tables to quarantine, findings of a comparison with the source, its answers. Out: pieces without changes from
//! which on the catalog holds them. Never here: a place inside a transaction.

use catalog::{Answer, Catalog, Found, NamedTable};

use super::{SequencedPiece, Sequencer, SharedCatalog};
use crate::DecodedPiece;

impl Sequencer {
    /// Quarantines tables, each with the reason, as a transaction without a GTID: their rows cannot be read. `decoded`
    /// is any piece without changes. Call only at a transaction boundary.
    #[must_use]
    pub fn quarantine_unreadable(
        &mut self,
        tables: &[(NamedTable, String)],
        decoded: DecodedPiece,
        shared: &SharedCatalog,
    ) -> SequencedPiece {
        let mut piece = self.copied(decoded);
        for (table, why) in tables {
            let (catalog, gone) = self.state.catalog.with_quarantined(table, why);
            self.state.catalog = catalog;
            piece.dropped.extend(gone.map(|id| (piece.first, id)));
        }
        self.state.version += 1;
        shared.publish(self.epoch, self.state.version, &self.state.catalog);
        piece.catalogs.push((piece.first, self.state.catalog.clone()));
        piece
    }

    /// Takes over what a comparison with the source found, as a transaction without a GTID. None, with nothing done, if
    /// the catalog is not at this epoch any more: some of it may be wrong by now. `decoded` is any piece without
    /// changes. Call only at a transaction boundary.
    #[must_use]
    pub fn add_found(
        &mut self,
        found: &Found,
        epoch: u64,
        decoded: DecodedPiece,
        shared: &SharedCatalog,
    ) -> Option<SequencedPiece> {
        if self.state.catalog.epoch() != epoch {
            return None;
        }
        Some(self.with_catalog(self.state.catalog.with_found(found), decoded, shared))
    }

    /// Takes over what the source says of definitions that are not settled, as a transaction without a GTID. `decoded`
    /// is any piece without changes. Call only at a transaction boundary.
    #[must_use]
    pub fn add_answer(&mut self, answer: &Answer, decoded: DecodedPiece, shared: &SharedCatalog) -> SequencedPiece {
        self.with_catalog(self.state.catalog.with_answer(answer), decoded, shared)
    }

    /// A piece of its own from which on a catalog holds that another source than the log has changed.
    fn with_catalog(&mut self, catalog: Catalog, decoded: DecodedPiece, shared: &SharedCatalog) -> SequencedPiece {
        let mut piece = self.copied(decoded);
        self.state.catalog = catalog;
        self.state.version += 1;
        shared.publish(self.epoch, self.state.version, &self.state.catalog);
        piece.catalogs.push((piece.first, self.state.catalog.clone()));
        piece
    }
}

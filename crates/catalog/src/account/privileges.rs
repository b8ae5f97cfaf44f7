//! Static privileges: their names, and which of them exist at which level (sql/auth/auth_acls.h).

/// In the order in which SHOW GRANTS lists them.
const NAMES: [&str; 30] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "RELOAD",
    "SHUTDOWN",
    "PROCESS",
    "FILE",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "SHOW DATABASES",
    "SUPER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "EXECUTE",
    "REPLICATION SLAVE",
    "REPLICATION CLIENT",
    "CREATE VIEW",
    "SHOW VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "CREATE USER",
    "EVENT",
    "TRIGGER",
    "CREATE TABLESPACE",
    "CREATE ROLE",
    "DROP ROLE",
];

/// A set of static privileges, GRANT OPTION not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Privileges(u32);

impl Privileges {
    /// All of the level `*.*`.
    pub(crate) const GLOBAL: Privileges = Privileges((1 << NAMES.len()) - 1);
    /// All of a database.
    pub(crate) const DATABASE: Privileges =
        Privileges(0b11_1111 | 0b111 << 10 | 0b111 << 15 | 0b1111 << 20 | 0b11 << 25);
    /// All of a table.
    pub(crate) const TABLE: Privileges = Privileges(0b11_1111 | 0b111 << 10 | 0b11 << 20 | 1 << 26);
    /// All of a routine or library.
    pub(crate) const ROUTINE: Privileges = Privileges(1 << 17 | 1 << 23);

    pub(crate) fn named(name: &str) -> Option<Privileges> {
        NAMES.iter().position(|known| *known == name).map(|bit| Privileges(1 << bit))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn with(self, more: Privileges) -> Privileges {
        Privileges(self.0 | more.0)
    }

    pub(crate) fn without(self, less: Privileges) -> Privileges {
        Privileges(self.0 & !less.0)
    }

    pub(crate) fn both(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// Each of them by itself.
    pub(crate) fn each(self) -> impl Iterator<Item = (Privileges, &'static str)> {
        let named = NAMES.iter().enumerate().map(|(bit, name)| (Privileges(1 << bit), *name));
        named.filter(move |(one, _)| !self.both(*one).is_empty())
    }

    pub(crate) fn names(self) -> String {
        self.each().map(|(_, name)| name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 9.7.4 prints them.
    #[test]
    fn each_level_has_its_own() {
        let database = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, \
             LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER";
        assert_eq!(Privileges::DATABASE.names(), database);
        let table =
            "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE VIEW, SHOW VIEW, TRIGGER";
        assert_eq!(Privileges::TABLE.names(), table);
        assert_eq!(Privileges::ROUTINE.names(), "EXECUTE, ALTER ROUTINE");
        assert_eq!(Privileges::GLOBAL.each().count(), NAMES.len());
    }
}

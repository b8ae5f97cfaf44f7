//! SHOW GRANTS of an account: our rights as the privileges that allow the same on a MySQL server.

use crate::rights::Rights;

/// The rows: privileges on everything, dynamic ones, then those of single schemas.
pub(crate) fn lines(user: &str, host: &str, rights: Rights, schemas: Option<&[String]>) -> Vec<String> {
    let account = format!("{}@{}", quoted(user), quoted(host));
    let everywhere = everywhere(rights, schemas.is_none());
    let mut lines = vec![format!("GRANT {everywhere} ON *.* TO {account}")];
    if rights.admin {
        lines
            .push(format!("GRANT CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO {account}"));
    }
    let mut schemas: Vec<&String> = schemas.filter(|_| rights.read).unwrap_or_default().iter().collect();
    schemas.sort();
    lines.extend(
        schemas
            .into_iter()
            .map(|schema| format!("GRANT SELECT, LOCK TABLES, SHOW VIEW ON {}.* TO {account}", pattern(schema))),
    );
    lines
}

/// Privileges on `*.*`, in MySQL's order.
fn everywhere(rights: Rights, all_schemas: bool) -> String {
    let reads = rights.read && all_schemas;
    let privileges = [
        (reads, "SELECT"),
        (rights.admin, "RELOAD"),
        (rights.monitor, "PROCESS"),
        (reads, "LOCK TABLES"),
        (rights.replicate, "REPLICATION SLAVE"),
        (rights.monitor || rights.replicate, "REPLICATION CLIENT"),
        (reads, "SHOW VIEW"),
    ];
    let names: Vec<&str> = privileges.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
    if names.is_empty() { "USAGE".to_owned() } else { names.join(", ") }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A schema's name where GRANT takes a pattern.
fn pattern(schema: &str) -> String {
    quoted(&schema.replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rights: &str, schemas: Option<&[&str]>) -> Vec<String> {
        let schemas = schemas.map(|names| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let rights = if rights.is_empty() { Rights::default() } else { rights.parse().unwrap() };
        lines("app", "10.%", rights, schemas.as_deref())
    }

    #[test]
    fn each_right_has_its_privileges() {
        assert_eq!(of("", None), ["GRANT USAGE ON *.* TO `app`@`10.%`"]);
        assert_eq!(of("read", None), ["GRANT SELECT, LOCK TABLES, SHOW VIEW ON *.* TO `app`@`10.%`"]);
        assert_eq!(of("monitor", None), ["GRANT PROCESS, REPLICATION CLIENT ON *.* TO `app`@`10.%`"]);
        assert_eq!(of("replicate", None), ["GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `app`@`10.%`"]);
        assert_eq!(
            of("admin", None),
            [
                "GRANT RELOAD ON *.* TO `app`@`10.%`",
                "GRANT CONNECTION_ADMIN,REPLICATION_SLAVE_ADMIN,SYSTEM_VARIABLES_ADMIN ON *.* TO `app`@`10.%`"
            ]
        );
    }

    #[test]
    fn schemas_have_rows_of_their_own() {
        assert_eq!(
            of("monitor,read", Some(&["shop_1", "a`b"])),
            [
                "GRANT PROCESS, REPLICATION CLIENT ON *.* TO `app`@`10.%`",
                "GRANT SELECT, LOCK TABLES, SHOW VIEW ON `a``b`.* TO `app`@`10.%`",
                "GRANT SELECT, LOCK TABLES, SHOW VIEW ON `shop\\_1`.* TO `app`@`10.%`",
            ]
        );
    }
}

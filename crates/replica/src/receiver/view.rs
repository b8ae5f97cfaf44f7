//! What a member of a group says of itself and of the group, and whether another one's view is later and lacks it.
//!
//! In: a connection to a member. Out: its view. Never here: whether it is left for another one.

use client::Connection;
use source::group::{self, Member};

/// The view of a member.
pub(super) struct View {
    pub server_uuid: String,
    /// Name of the group.
    pub group: String,
    /// The member is ONLINE and can reach a majority, so that its view is the group's.
    decides: bool,
    view_id: String,
    pub members: Vec<Member>,
}

impl View {
    /// Asks a member; None if it is to be in no group.
    ///
    /// # Errors
    /// The connection fails, or it answers otherwise than a member does.
    pub(super) fn ask(connection: &mut Connection) -> client::Result<Option<View>> {
        let Some(group) = group::name(connection)? else { return Ok(None) };
        let (server_uuid, members) = (server_uuid(connection)?, group::members(connection)?);
        let unreachable = members.iter().filter(|member| member.state == "UNREACHABLE").count();
        let own = members.iter().find(|member| member.server_uuid == server_uuid);
        let decides = own.is_some_and(|own| own.state == "ONLINE") && unreachable * 2 < members.len();
        let view_id = members.iter().map(|member| member.view_id.clone()).find(|id| !id.is_empty()).unwrap_or_default();
        Ok(Some(View { server_uuid, group, decides, view_id, members }))
    }

    /// The member's own row.
    pub(super) fn own(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.server_uuid == self.server_uuid)
    }

    /// True if the group went on without the member that has this view: `other` has a later one without it.
    pub(super) fn is_out_of(&self, other: &View) -> bool {
        let has = other.members.iter().any(|member| member.server_uuid == self.server_uuid);
        other.decides && other.group == self.group && is_later(&other.view_id, &self.view_id) && !has
    }
    /// Why a member of another group is not followed after this one.
    pub(super) fn why_foreign(&self, other: &View) -> String {
        format!(
            "it is a member of another group ({}) than the followed one ({}), and lacks that group's transactions",
            shown(&other.group),
            shown(&self.group)
        )
    }
}

/// The name of a group, which is a UUID, as far as it may be shown.
fn shown(group: &str) -> &str {
    if group.parse::<base::Uuid>().is_ok() { group } else { "its name is no UUID" }
}

fn server_uuid(connection: &mut Connection) -> client::Result<String> {
    let what = "SELECT @@global.server_uuid";
    connection.query(what)?.told(0, 0, what)
}

/// Of two ids of views, `17960055559725797:3`: counted since the group began, or of a group that began again.
fn is_later(view_id: &str, than: &str) -> bool {
    let split = |id: &str| {
        let (begun, number) = id.rsplit_once(':')?;
        Some((begun.parse::<u64>().ok()?, number.parse::<u64>().ok()?))
    };
    match (split(view_id), split(than)) {
        (Some(one), Some(other)) => one > other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_counted_from_the_beginning_of_their_group() {
        assert!(is_later("17960055559725797:10", "17960055559725797:9"));
        assert!(!is_later("17960055559725797:9", "17960055559725797:9"));
        assert!(!is_later("17960055559725797:8", "17960055559725797:9"), "a member that has not seen a join yet");
        assert!(is_later("17960099999999999:1", "17960055559725797:9"));
        assert!(!is_later("17960055559725797:9", "17960099999999999:1"), "one of two groups is left for good");
        assert!(!is_later("", "17960055559725797:9") && !is_later("17960055559725797:9", ""));
    }

    fn view(of: &str, group: &str, number: u32, members: &[&str]) -> View {
        let member = |uuid: &&str| Member { server_uuid: (*uuid).to_owned(), ..Member::default() };
        View {
            server_uuid: of.into(),
            group: group.into(),
            decides: true,
            view_id: format!("17960055559725797:{number}"),
            members: members.iter().map(member).collect(),
        }
    }

    #[test]
    fn a_member_is_out_of_a_later_view_of_its_own_group_that_lacks_it() {
        let own = view("a", "g", 3, &["a", "b", "c"]);
        assert!(own.is_out_of(&view("b", "g", 4, &["b", "c"])));
        assert!(!own.is_out_of(&view("b", "g", 4, &["a", "b"])));
        assert!(!own.is_out_of(&view("b", "g", 2, &["b", "c"])), "of before it joined");
        assert!(!own.is_out_of(&view("b", "other", 4, &["b", "c"])));
        assert!(!own.is_out_of(&View { decides: false, ..view("b", "g", 4, &["b", "c"]) }), "of a minority");
    }
}

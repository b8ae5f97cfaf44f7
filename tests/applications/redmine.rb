# Redmine as its users see it: requests, each of them in sessions of a pool, with the text of each answer. Run by
# `bin/rails runner` in Redmine's test environment, with its fixtures loaded.
session = ActionDispatch::Integration::Session.new(Rails.application)
session.host! "redmine.example"

def show(what, session)
  text = session.response.body.gsub(%r{<(script|style).*?</\1>}m, " ").gsub(/<[^>]*>/, " ").gsub(/\s+/, " ")
  # What differs from one run to the next.
  text = text.gsub(/\d{1,2}:\d\d(:\d\dZ?| [AP]M)?/, "TIME").gsub(/(less than a|\d+) minutes? ago/, "AGO")
  text = text.gsub(/\h{32}/, "SESSION")
  puts "#{what}: #{session.response.status} #{session.response.location} #{text}"
end

pages = %w[/ /projects /projects.xml /projects/ecookbook /projects/ecookbook/activity /projects/ecookbook/roadmap
  /issues /issues?sort=priority:desc,updated_on:desc /issues?set_filter=1&status_id=*&group_by=tracker
  /projects/ecookbook/issues /projects/ecookbook/issues.json?limit=10 /projects/ecookbook/issues/report /issues/1 /issues/2
  /issues/3 /issues/8 /issues/1.xml?include=journals,children,relations /projects/ecookbook/time_entries
  /projects/ecookbook/time_entries/report?criteria[]=user /time_entries.json /projects/ecookbook/wiki
  /projects/ecookbook/wiki/index /projects/ecookbook/wiki/CookBook_documentation/history /projects/ecookbook/news /news/1
  /projects/ecookbook/boards /boards/1 /boards/1/topics/1 /projects/ecookbook/documents /projects/ecookbook/files
  /projects/ecookbook/issues/calendar?year=2026&month=1 /projects/ecookbook/issues/gantt?year=2026&month=1 /users/2
  /versions/2 /search?q=recipe /projects/ecookbook/search?q=cookbook&titles_only=1 /issues.csv /queries /issues/999999]
own = %w[/my/page /my/account /issues?assigned_to_id=me&set_filter=1 /projects/ecookbook/issues/new]
administration = %w[/admin /admin/projects /users /groups /roles /trackers /issue_statuses /workflows/edit?role_id=1&tracker_id=1
  /custom_fields /enumerations /settings /projects/ecookbook/settings]

pages.each { |page| session.get(page) && show(page, session) }
session.post("/login", params: { username: "jsmith", password: "jsmith" })
show("login", session)
3.times do |n|
  (pages.first(20) + own).each { |page| session.get(page) && show("#{n} #{page}", session) }
  session.post("/projects/ecookbook/issues", params: { issue: {
    tracker_id: 1, subject: "Of the run, #{n}", description: "Text", priority_id: 5, custom_field_values: { "2" => "125" }
  } })
  show("new issue", session)
  id = Issue.maximum(:id)
  session.put("/issues/#{id}", params: { issue: { notes: "A note", done_ratio: 10 * n, status_id: 2 } })
  show("changed", session)
  session.get("/issues/#{id}.json")
  issue = JSON.parse(session.response.body)["issue"]
  puts "issue: #{issue.values_at("subject", "status", "done_ratio")}"
  session.post("/issues/#{id}/time_entries", params: { time_entry: { hours: 1.5, activity_id: 9, spent_on: "2026-01-02" } })
  show("time", session)
end
session.post("/logout")
session.post("/login", params: { username: "admin", password: "admin" })
administration.each { |page| session.get(page) && show(page, session) }

package ledger

import (
	"net/http"
	"slices"
	"strings"

	past "github.com/ledgerbus/ledgerbus/engine/ledger"
	"github.com/ledgerbus/ledgerbus/protocol/access"
	"github.com/ledgerbus/ledgerbus/protocol/ledger/wire"
)

// A route is a row of the table of requests.
type route struct {
	method string
	path   string // after the prefix; a segment in braces matches any text
	right  access.Rights
	// parameters of the query; nil: it has none. Questions about the past have theirs in package
	// engine/ledger.
	parameters []string
	answer     func(*call) (any, error) // returns JSON or a stream, or an error
}

// routes lists all requests. GET requests change nothing. The others store their reason in an
// event.
var routes = []route{
	{http.MethodGet, "v1/partitions", access.Manage, nil, (*call).listPartitions},
	{http.MethodPost, "v1/partitions/{id}/fence", access.Manage, nil, (*call).fencePartition},
	{http.MethodPost, "v1/partitions/{id}/restart", access.Manage, nil, (*call).restartPartition},
	live("now", nil, (*call).showNow),
	live("entities", []string{"prefix", "kind", "sort", "top", "after"}, (*call).entities),
	live("entity", []string{"entity"}, (*call).entity),
	live("sessions", []string{"entity", "top", "after"}, (*call).sessions),
	live("series", []string{"entity", "step"}, (*call).series),
	live("receivers", []string{"entity"}, (*call).receivers),
	live("messages", messageParameters, (*call).messages),
	{http.MethodGet, "v1/history/policies", access.Manage, nil, (*call).listHistoryPolicies},
	{http.MethodPost, "v1/history/policies", access.Manage, nil, (*call).setHistoryPolicy},
	{http.MethodPost, "v1/history/policies/delete", access.Manage, nil, (*call).deleteHistoryPolicy},
	{http.MethodPost, "v1/backup", access.Manage, nil, (*call).backup},
	{http.MethodPost, "v1/messages/erase", access.Manage, nil, (*call).eraseMessage},
	question("story"), question("why"), question("at"), question("diff"), question("when"), question("audit"), question("events"), question("trace"), question("log"),
	{http.MethodGet, "v1/strip", access.ReadHistory, stripParameters, (*call).strip},
}

// takesQuery reports whether the request has parameters in its query.
func (r *route) takesQuery() bool { return r.isQuestion() || r.isLive() }

// isLive reports whether the request is a question about the present, or strip.
func (r *route) isLive() bool {
	return r.method == http.MethodGet && r.right == access.ReadHistory && !r.isQuestion()
}

// isQuestion reports whether the request is a question about the past, whose parameters are in its
// query.
func (r *route) isQuestion() bool {
	return slices.Contains(past.Verbs(), strings.TrimPrefix(r.path, "v1/"))
}

// Owns reports whether the path of a request belongs to this package, whether it exists or not.
func Owns(path string) bool {
	rest := path[min(len(path), len(wire.Prefix)):]
	return strings.EqualFold(path[:len(path)-len(rest)], wire.Prefix) && (rest == "" || rest[0] == '/')
}

// find returns the route of a request and the values of the segments in braces. If there is no such
// route, it returns the methods that the path allows, none if the path does not exist. Letter case
// matters, as in every URL.
func find(method, path string) (r *route, vars map[string]string, methods []string) {
	rest, ok := strings.CutPrefix(path, wire.Prefix+"/")
	if !ok {
		return nil, nil, nil
	}
	for i := range routes {
		vars, ok := match(routes[i].path, rest)
		switch {
		case ok && routes[i].method == method:
			return &routes[i], vars, nil
		case ok:
			methods = append(methods, routes[i].method)
		}
	}
	return nil, nil, methods
}

// match compares a path with a pattern, segment by segment. An empty segment matches nothing.
func match(pattern, path string) (vars map[string]string, ok bool) {
	want, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(given) {
		return nil, false
	}
	for i, segment := range want {
		name, isVar := strings.CutPrefix(segment, "{")
		switch {
		case isVar && given[i] != "":
			if vars == nil {
				vars = map[string]string{}
			}
			vars[strings.TrimSuffix(name, "}")] = given[i]
		case segment != given[i]:
			return nil, false
		}
	}
	return vars, true
}

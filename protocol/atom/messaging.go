package atom

import (
	"net/http"
	"strings"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
)

// messageOperations are the operations of the service's REST API for messages, by method and by the
// path after "messages".
var messageOperations = map[string]string{
	"POST":          "Send Message",
	"POST/head":     "Peek-Lock Message",
	"DELETE/head":   "Receive and Delete Message",
	"POST/id/token": "Renew Lock for a Message", "PUT/id/token": "Unlock Message", "DELETE/id/token": "Delete Message",
}

// messaging returns the request's entry of messageOperations, "" if it has none (management-api.md
// 1.2). A queue or topic with such a path can still be created and deleted.
func (r *request) messaging() string {
	if r.route.kind != entityPath {
		return ""
	}
	segments := strings.Split(strings.ToLower(r.route.path), "/")
	name, entity := "", ""
	for at := len(segments) - 1; at > 0 && at >= len(segments)-3 && name == ""; at-- {
		if segments[at] != "messages" {
			continue
		}
		behind := segments[at+1:]
		if len(behind) == 2 {
			behind = []string{"id", "token"}
		}
		name, entity = messageOperations[strings.Join(append([]string{r.Method}, behind...), "/")], strings.Join(segments[:at], "/")
	}
	if name == "" || r.Method == http.MethodPost || engine.CheckPath(event.Queue, r.route.path) != nil {
		return name
	}
	if _, there := r.h.Admin.Find(entity); !there || r.entity != nil || r.Method == http.MethodPut && r.ContentLength != 0 {
		return ""
	}
	return name
}

func (r *request) notImplemented(name string) error {
	return refuse(http.StatusNotImplemented, 0, "%s (%s %s) is not implemented: messages are sent and received over AMQP 1.0, as every Service Bus SDK does.",
		name, r.Method, shownPath(r.Request))
}

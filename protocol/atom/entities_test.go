package atom

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

// MA-030, MA-031: everything has its default, and the answer to a PUT is that to a GET without
// counters.
func TestCreateDefaults(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	w := a.put("/orders/eu", queue("")).is(201, `<entry xmlns="http://www.w3.org/2005/Atom"><id>http://bus.example:5300/orders/eu?api-version=2021-05</id><title type="text">orders/eu</title><published>2026-01-01T00:00:00Z</published><updated>2026-01-01T00:00:00Z</updated><author><name>ns</name></author><link rel="self" href="http://bus.example:5300/orders/eu?api-version=2021-05"/><content type="application/xml"><QueueDescription`+spaces+
		`<LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>1024</MaxSizeInMegabytes><RequiresDuplicateDetection>false</RequiresDuplicateDetection><RequiresSession>false</RequiresSession><DefaultMessageTimeToLive>P10675199DT2H48M5.4775807S</DefaultMessageTimeToLive><DeadLetteringOnMessageExpiration>false</DeadLetteringOnMessageExpiration><DuplicateDetectionHistoryTimeWindow>PT10M</DuplicateDetectionHistoryTimeWindow><MaxDeliveryCount>10</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations><SizeInBytes>0</SizeInBytes><MessageCount>0</MessageCount><IsAnonymousAccessible>false</IsAnonymousAccessible><AuthorizationRules/><Status>Active</Status><CreatedAt>2026-01-01T00:00:00.001Z</CreatedAt><UpdatedAt>2026-01-01T00:00:00.001Z</UpdatedAt><SupportOrdering>true</SupportOrdering><AutoDeleteOnIdle>P10675199DT2H48M5.4775807S</AutoDeleteOnIdle><EnablePartitioning>false</EnablePartitioning><EntityAvailabilityStatus>Available</EntityAvailabilityStatus><EnableExpress>false</EnableExpress><MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes></QueueDescription></content></entry>`)
	if w.header.Get("Content-Type") != "application/atom+xml;type=entry;charset=utf-8" || w.header.Get("ETag") != "" || w.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf(`%v; want w.header.Get("Content-Type") == "application/atom+xml;type=entry;charset=utf-8" && w.header.Get("ETag") == "" && w.header.Get("X-Content-Type-Options") == "nosniff"`, w.header)
	}
	// MA-104
	if w := a.get("/orders/eu").is(200, "<AccessedAt>0001-01-01T00:00:00Z</AccessedAt>", "<CountDetails "); w.header.Get("ETag") != "639028224000010000" {
		t.Errorf(`%v; want w.header.Get("ETag") == "639028224000010000"`, w.header)
	}
	a.put("/t", topic("")).is(201, "<SupportOrdering>true</SupportOrdering>", "<FilteringMessagesBeforePublishing>false<").lacks("CountDetails", "AccessedAt", "SubscriptionCount")
	a.get("/t?api-version=2024-05").is(200, "CountDetails", "AccessedAt", "<SubscriptionCount>0<", "<SqlFilterCount>0<")
	w = a.put("/t/Subscriptions/s", subscription("")).is(201, `<title type="text">s</title>`, `<AccessedAt>0001-01-01T00:00:00</AccessedAt>`,
		"<DeadLetteringOnFilterEvaluationExceptions>true<", "<MessageCount>0<").lacks("CountDetails", "<author>", "AuthorizationRules", "SizeInBytes")
	if w.header.Get("ETag") == "" { // of the topic
		t.Errorf(`%v; want w.header.Get("ETag") != ""`, w.header)
	}
	a.get("/t/Subscriptions/s").is(200, "<CountDetails xmlns:d3p1=", `<CreatedAt>2026-01-01T00:00:00.003Z<`, `<AccessedAt>2026-01-01T00:00:00.003Z<`)
	a.get("/t/Subscriptions").is(200, `<AccessedAt>2026-01-01T00:00:00.003Z<`)
	a.get("/t").is(200, `<AccessedAt>0001-01-01T00:00:00Z<`)
	a.fake.runtimes["t/subscriptions/s"] = engine.Runtime{AccessedAt: start + 5000}
	a.get("/t/Subscriptions/s").is(200, `<AccessedAt>2026-01-01T00:00:05Z<`)
	// MA-091, MA-105
	a.get("/t?api-version=2024-05").is(200, "<SubscriptionCount>1<", "<SqlFilterCount>1<", "<CorrelationFilterCount>0<")
	a.delete("/t/Subscriptions/s").is(200)
	a.get("/t").is(200, "<SubscriptionCount>0<")
}

// MA-032 to MA-034, MA-088: a name that is taken cannot be created, in any letter case and for any
// kind.
func TestCreateExisting(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s", "t/Subscriptions/s/Rules/r")
	conflict := func(w answer, fragments ...string) {
		t.Helper()
		if w.is(409, fragments...).lacks("40901"); !strings.Contains(w.body, "<Detail>SubCode") && !strings.Contains(w.body, "<Detail>The messaging entity") {
			t.Errorf("%s; want a SubCode or what holds of the messaging entity in Detail", w.body)
		}
	}
	conflict(a.put("/q", queue("")), "<Code>409</Code>", "SubCode=40900. Conflict.")
	conflict(a.put("/Q", topic("")), "SubCode=40900. Conflict.")
	conflict(a.put("/T", queue("")), "SubCode=40900. Conflict.")
	conflict(a.put("/t/Subscriptions/S", subscription("")), "The messaging entity 'ns:Topic:t|S' already exists.", "SystemTracker:NoSystemTracker")
	conflict(a.put("/t/Subscriptions/s/Rules/R", rule("")), "The messaging entity 'ns:Topic:t|s|R' already exists.")
}

// MA-035 to MA-037: an update replaces everything, and never creates.
func TestUpdate(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.put("/q", queue("<MaxDeliveryCount>50</MaxDeliveryCount><UserMetadata>m</UserMetadata><Status>Disabled</Status>")).is(201, "<MaxDeliveryCount>50<", "<UserMetadata>m<")
	w := a.update("/Q", queue("<LockDuration>PT60S</LockDuration>")).is(200, "<MaxDeliveryCount>10<", "<LockDuration>PT1M<", "<Status>Active<", `<title type="text">q</title>`).lacks("UserMetadata", "CountDetails")
	if e := w.entity(); e.UpdatedAt <= e.CreatedAt { // MA-103
		t.Errorf("updated %s, created %s", e.UpdatedAt, e.CreatedAt)
	}
	if w.header.Get("ETag") != "639028224000020000" {
		t.Errorf(`%v; want w.header.Get("ETag") == "639028224000020000"`, w.header)
	}
	a.update("/q", queue("<MaxDeliveryCount>3</MaxDeliveryCount>"), "If-Match", `"anything"`).is(200, "<MaxDeliveryCount>3<")
	a.create("topic:t")
	a.put("/t/Subscriptions/s", subscription("<Status>Disabled</Status>")).is(201, "<Status>Disabled<")
	a.update("/t/Subscriptions/s", subscription("<LockDuration>PT10S</LockDuration>")).is(200, "<Status>Active<")
	a.update("/missing", queue("")).is(404, "<Detail>SubCode=40400. Not Found. The Operation doesn't exist.")
	a.update("/t/Subscriptions/missing", subscription("")).is(404, "<Detail>SubCode=40400. Not Found. The Operation doesn't exist.")
	a.update("/missing/Subscriptions/s", subscription("")).is(404, "The incoming request is not recognized as a namespace policy put request.")
	a.put("/missing/Subscriptions/s", subscription("")).is(404, "The incoming request is not recognized as a namespace policy put request.")
	a.put("/q/Subscriptions/s", subscription("")).is(404, "The incoming request is not recognized as a namespace policy put request.")
	a.get("/missing").notFound()
}

// SM-204, S4-11, MA-038, MA-039: what cannot change; left out it stays.
func TestFixed(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, c := range []struct{ path, kind, element, fragment string }{
		{"/q1", "Queue", "RequiresSession", "The value for the RequiresSession property of an existing Queue cannot be changed"},
		{"/q2", "Queue", "RequiresDuplicateDetection", "The value for the RequiresDuplicateDetection property of an existing Queue cannot be changed"},
		{"/q3", "Queue", "EnablePartitioning", "Partitioning cannot be changed for Queue. "},
		{"/t1", "Topic", "RequiresDuplicateDetection", "The value for the RequiresDuplicateDetection property of an existing Topic cannot be changed"},
		{"/t2", "Topic", "EnablePartitioning", "Partitioning cannot be changed for Topic. "},
		{"/t2/Subscriptions/s", "Subscription", "RequiresSession", "The value for the RequiresSession property of an existing Subscription cannot be changed"},
	} {
		with := func(value string) string {
			return description(c.kind+"Description", "<"+c.element+">"+value+"</"+c.element+">")
		}
		none := description(c.kind+"Description", "")
		a.put(c.path, none).is(201)
		a.update(c.path, with("true")).is(400, "SubCode=40000. "+c.fragment)
		a.update(c.path, none).is(200, "<"+c.element+">false<")
		a.delete(c.path).is(200)
		a.put(c.path, with("true")).is(201)
		a.update(c.path, with("false")).is(400, c.fragment)
		a.update(c.path, none).is(200, "<"+c.element+">true<")
		a.update(c.path, with("1")).is(200)
	}
	a.update("/q1", topic("")).is(400, "SubCode=40000. 'q1' is a Queue and cannot be made a Topic.")
	a.get("/q1").is(200, "<QueueDescription")
}

// MA-040, MA-047: a body that is what GET answered changes nothing, also of a partitioned entity.
func TestEcho(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("target", "topic:t0")
	auth := `<AuthorizationRules><AuthorizationRule i:type="SharedAccessAuthorizationRule"><Rights><AccessRights>Send</AccessRights></Rights><KeyName>k</KeyName></AuthorizationRule></AuthorizationRules>`
	for path, body := range map[string]string{
		"/plain":              queue(""),
		"/full":               queue(auth + `<MaxSizeInMegabytes>5120</MaxSizeInMegabytes><UserMetadata>&lt;m&gt;</UserMetadata><ForwardTo>target</ForwardTo><Status>SendDisabled</Status><EnableExpress>true</EnableExpress>`),
		"/split":              queue("<EnablePartitioning>true</EnablePartitioning><MaxSizeInMegabytes>2048</MaxSizeInMegabytes>"),
		"/topic":              topic(auth + `<FilteringMessagesBeforePublishing>true</FilteringMessagesBeforePublishing><EnableSubscriptionPartitioning>true</EnableSubscriptionPartitioning><AutoDeleteOnIdle>PT5M</AutoDeleteOnIdle>`),
		"/splittopic":         topic("<EnablePartitioning>true</EnablePartitioning><SupportOrdering>true</SupportOrdering>"),
		"/t0/Subscriptions/s": subscription(`<RequiresSession>true</RequiresSession><DefaultMessageTimeToLive>P1D</DefaultMessageTimeToLive><ForwardDeadLetteredMessagesTo>sb://x/target</ForwardDeadLetteredMessagesTo>`),
	} {
		for _, version := range []string{"2017-04", "2021-05", "2024-05"} {
			a.put(path, body).is(201)
			before := a.get(path + "?api-version=" + version).is(200)
			a.update(path+"?api-version="+version, before.body).is(200)
			after := a.get(path + "?api-version=" + version)
			p, q := before.entity().Properties, after.entity().Properties
			if !p.Equal(&q) {
				t.Errorf("%s %s:\n%+v\n%+v", path, version, p, q)
			}
			a.delete(path).is(200)
		}
	}
}

// MA-041, MA-042: the queue as go, js and py write it.
func TestDocumentsOfSDKs(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("target")
	for name, c := range map[string]struct{ mediaType, body string }{
		"go":  {"application/atom+xml;type=entry;charset=utf-8", `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT30S</LockDuration><MaxSizeInMegabytes>2048</MaxSizeInMegabytes><RequiresDuplicateDetection>true</RequiresDuplicateDetection><Status>Active</Status><ForwardTo>https://bus.example:5300/target</ForwardTo><UserMetadata>meta</UserMetadata></QueueDescription></content></entry>`},
		"js":  {"application/atom+xml;type=entry;charset=utf-8", `<?xml version="1.0" encoding="UTF-8" standalone="yes"?><entry xmlns="http://www.w3.org/2005/Atom"><updated>2026-01-01T00:00:00.000Z</updated><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><LockDuration>PT30S</LockDuration><MaxSizeInMegabytes>2048</MaxSizeInMegabytes><RequiresDuplicateDetection>true</RequiresDuplicateDetection><ForwardTo>https://bus.example:5300/target</ForwardTo><UserMetadata>meta</UserMetadata></QueueDescription></content></entry>`},
		"py":  {"application/atom+xml", `<?xml version='1.0' encoding='utf-8'?>` + "\n" + `<ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom" xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><ns0:content type="application/xml"><QueueDescription><LockDuration>PT30S</LockDuration><MaxSizeInMegabytes>2048</MaxSizeInMegabytes><RequiresDuplicateDetection>true</RequiresDuplicateDetection><IsAnonymousAccessible>false</IsAnonymousAccessible><ForwardTo>https://bus.example:5300/target</ForwardTo><UserMetadata>meta</UserMetadata></QueueDescription></ns0:content></ns0:entry>`},
		"net": {"application/atom+xml; charset=utf-8", `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT30S</LockDuration><MaxSizeInMegabytes>2048</MaxSizeInMegabytes><RequiresDuplicateDetection>true</RequiresDuplicateDetection><RequiresSession>false</RequiresSession><MaxDeliveryCount>10</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations><IsAnonymousAccessible>false</IsAnonymousAccessible><AuthorizationRules /><Status>Active</Status><ForwardTo>https://bus.example:5300/target</ForwardTo><UserMetadata>meta</UserMetadata><EnablePartitioning>false</EnablePartitioning></QueueDescription></content></entry>`},
	} {
		w := a.put("/"+name, c.body, "Content-Type", c.mediaType).is(201)
		want := engine.DefaultProperties(event.Queue)
		want.LockDuration, want.MaxSizeMegabytes, want.RequiresDuplicateDetection = 30*time.Second, 2048, true
		want.ForwardTo, want.UserMetadata = "https://bus.example:5300/target", "meta"
		if got := w.entity().Properties; !got.Equal(&want) {
			t.Errorf("%s: %+v; want got.Equal(&want)", name, got)
		}
	}
}

// MA-043 to MA-046: a path is answered by the thing that exists there, and after a DELETE none
// does.
func TestGetAndDelete(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s")
	for _, path := range []string{"/missing", "/t/Subscriptions/missing", "/missing/Subscriptions/s", "/q/Subscriptions/s", "/bad name"} {
		a.get(strings.ReplaceAll(path, " ", "%20")).notFound()
	}
	a.get("/t").is(200, "<TopicDescription")
	a.get("/q").is(200, "<QueueDescription")
	w := a.delete("/t").is(200)
	if w.body != "" || w.header.Get("Content-Length") != "0" || w.header.Get("Content-Type") != "" || w.header.Get("ETag") == "" {
		t.Errorf(`%q %v; want w.body == "" && w.header.Get("Content-Length") == "0" && w.header.Get("Content-Type") == "" && w.header.Get("ETag") != ""`, w.body, w.header)
	}
	a.delete("/t").is(404, "<Detail>No service is hosted at the specified address.")
	a.get("/t/Subscriptions/s").notFound()
	a.delete("/t/Subscriptions/s").is(404, "<Detail>No service is hosted at the specified address.")
	a.create("topic:T")
	a.delete("/t/Subscriptions/s").is(404, "<Detail>The messaging entity 'ns:Topic:t|s' could not be found.")
	a.delete("/t").is(200)
	a.create("T")
	a.get("/t").is(200, "<QueueDescription", `<title type="text">t</title>`)
}

// MA-048 to MA-056, MA-060: ranges, at the limit and one beyond.
func TestRanges(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	premium := newAPI(t, func(o *Options) { o.Tier = engine.Premium })
	element := func(name, value string) string { return "<" + name + ">" + value + "</" + name + ">" }
	n := 0
	for _, c := range []struct {
		api         *api
		name, value string
		shown       string // "": refused
		fragment    string
	}{
		{a, "LockDuration", "PT4S", "", "'5' seconds"},
		{a, "LockDuration", "PT5S", "PT5S", ""},
		{a, "LockDuration", "PT5M", "PT5M", ""},
		{a, "LockDuration", "PT301S", "", "exceeds the allowed maximum of '5' minutes."},
		{a, "LockDuration", "P25D", "", "The supplied lock time exceeds the allowed maximum of '5' minutes.&#xD;\nParameter name: LockDuration&#xD;\nActual value was 25.00:00:00."},
		{a, "LockDuration", "P1Y", "", "SubCode=40000"},
		{a, "LockDuration", "", "", "SubCode=40000"},
		{a, "DefaultMessageTimeToLive", "PT1S", "PT1S", ""},
		{a, "DefaultMessageTimeToLive", "PT0.9S", "", "SubCode=40000"},
		{a, "DefaultMessageTimeToLive", "PT0S", "", "SubCode=40000"},
		{a, "DefaultMessageTimeToLive", "-PT1S", "", "SubCode=40000"},
		{a, "DefaultMessageTimeToLive", "PT24H", "P1D", ""},
		{a, "DefaultMessageTimeToLive", "P10675199DT2H48M5.4775807S", "P10675199DT2H48M5.4775807S", ""},
		{a, "DefaultMessageTimeToLive", "P10675199DT2H48M5.477539S", "P10675199DT2H48M5.4775807S", ""},
		{a, "DefaultMessageTimeToLive", "PT256204778H48M5.4775807S", "P10675199DT2H48M5.4775807S", ""},
		{a, "AutoDeleteOnIdle", "PT4M59S", "", "SubCode=40000"},
		{a, "AutoDeleteOnIdle", "PT5M", "PT5M", ""},
		{a, "DuplicateDetectionHistoryTimeWindow", "PT19S", "", "The value supplied must be between 00:00:20 and 7.00:00:00."},
		{a, "DuplicateDetectionHistoryTimeWindow", "PT20S", "PT20S", ""},
		{a, "DuplicateDetectionHistoryTimeWindow", "P7D", "P7D", ""},
		{a, "DuplicateDetectionHistoryTimeWindow", "P7DT1S", "", "Parameter name: DuplicateDetectionHistoryTimeWindow"},
		{a, "MaxDeliveryCount", "0", "", "SubCode=40000"},
		{a, "MaxDeliveryCount", "1", "1", ""},
		{a, "MaxDeliveryCount", "2147483647", "2147483647", ""},
		{a, "MaxDeliveryCount", "2147483648", "", "SubCode=40000"},
		{a, "MaxDeliveryCount", "-1", "", "SubCode=40000"},
		{a, "MaxSizeInMegabytes", "5120", "5120", ""},
		{a, "MaxSizeInMegabytes", "16384", "", "The specified value 16384 is invalid. The property 'MaxSizeInMegabytes', must be one of the following values: 1024;2048;3072;4096;5120."},
		{a, "MaxMessageSizeInKilobytes", "1024", "", "SubCode=40000"},
		{a, "UserMetadata", strings.Repeat("é", 1024), strings.Repeat("é", 1024), ""},
		{a, "UserMetadata", strings.Repeat("a", 1025), "", "UserMetadata"},
		{a, "Status", "ReceiveDisabled", "ReceiveDisabled", ""},
		{a, "Status", "Deleting", "", "SubCode=40000"},
		{a, "Status", "Nonsense", "", "SubCode=40000"},
		{premium, "MaxSizeInMegabytes", "81920", "81920", ""},
		{premium, "MaxMessageSizeInKilobytes", "1023", "", "must be between 1024 and 102400"},
		{premium, "MaxMessageSizeInKilobytes", "1024", "1024", ""},
		{premium, "MaxMessageSizeInKilobytes", "102401", "", "SubCode=40000"},
		{premium, "EnablePartitioning", "true", "", "SubCode=40000"},
	} {
		n++
		path := fmt.Sprintf("/q%d", n)
		w := c.api.put(path, queue(element(c.name, c.value)))
		if c.shown != "" {
			w.is(201, element(c.name, c.shown))
			continue
		}
		w.is(400, c.fragment)
		c.api.get(path).notFound() // MA-113
	}
	premium.put("/d", queue("")).is(201, "<MaxMessageSizeInKilobytes>1024<")
	a.put("/x", queue("<EnableExpress>true</EnableExpress><RequiresDuplicateDetection>true</RequiresDuplicateDetection>")).is(400, "Both DelayedPersistence and RequiresDuplicateDetection property can't be enabled together")
	a.create("topic:t")
	a.put("/t/Subscriptions/s", subscription("<IsClientAffine>true</IsClientAffine>")).is(400, "SubCode=40000")
	a.get("/t/Subscriptions/s").notFound()
}

// MA-047: the size of a partitioned entity is shown times 16, and taken in both forms.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, kind := range []string{"Queue", "Topic"} {
		body := func(size string) string {
			if size != "" {
				size = "<MaxSizeInMegabytes>" + size + "</MaxSizeInMegabytes>"
			}
			return description(kind+"Description", size+"<EnablePartitioning>true</EnablePartitioning>")
		}
		for size, shown := range map[string]string{"": "16384", "1024": "16384", "4096": "65536", "65536": "65536", "5120": "81920"} {
			path := "/" + kind + size
			a.put(path, body(size)).is(201, "<MaxSizeInMegabytes>"+shown+"<", "<EnablePartitioning>true<", "<SupportOrdering>false<")
			a.update(path, body(shown)).is(200, "<MaxSizeInMegabytes>"+shown+"<")
			a.update(path, description(kind+"Description", "<MaxSizeInMegabytes>2048</MaxSizeInMegabytes>")).is(200, "<MaxSizeInMegabytes>32768<")
		}
		a.put("/"+kind+"bad", body("6144")).is(400, "The specified value 6144 is invalid.")
	}
}

// An entity of the operator's file can have a size that the tier does not have; sending it back
// changes nothing.
func TestSizeOfAnotherTier(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q")
	a.fake.entities["q"].Properties.MaxSizeMegabytes, a.fake.entities["q"].Properties.MaxMessageSizeKilobytes = 100, 2048
	w := a.get("/q")
	a.update("/q", w.body).is(200, "<MaxSizeInMegabytes>100<", "<MaxMessageSizeInKilobytes>2048<")
	a.update("/q", strings.ReplaceAll(w.body, ">100<", ">101<")).is(400, "The specified value 101 is invalid.")
}

// MA-057, MA-058, SM-264 and the rules of forwarding (management-api.md 3.8).
func TestForward(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("queue", "a/B", "topic:t", "t/Subscriptions/s", "topic:t2")
	forward := func(value string) string { return queue("<ForwardTo>" + value + "</ForwardTo>") }
	for value, shown := range map[string]string{
		"SB://HOST/QUEUE": "sb://host/QUEUE", "https://Bus.Example:5300/Queue": "https://bus.example:5300/Queue", "queue": "sb://" + host + "/queue",
		" sb://host/queue ": "sb://host/queue", "sb://host/t": "sb://host/t", "sb://host/A%2Fb/": "sb://host/A%2Fb/", "a/b": "sb://" + host + "/a/b", "/queue": "sb://" + host + "/queue",
	} {
		a.put("/source", forward(value)).is(201, "<ForwardTo>"+shown+"</ForwardTo>")
		a.get("/source").is(200, "<ForwardTo>"+shown+"</ForwardTo>")
		a.update("/source", queue("<ForwardTo/>")).is(200).lacks("ForwardTo>")
		a.update("/source", queue("<ForwardDeadLetteredMessagesTo>"+value+"</ForwardDeadLetteredMessagesTo>")).is(200, "<ForwardDeadLetteredMessagesTo>"+shown+"<")
		a.delete("/source")
	}
	for _, value := range []string{"missing", "sb://host/missing", "t/Subscriptions/s", "queue/$DeadLetterQueue"} {
		a.put("/source", forward(value)).is(400, "SubCode=40400. The auto forwarding destination entity doesn't exist")
	}
	for _, body := range []string{
		forward("ftp://host/queue"), forward("sb:///queue"), forward("sb://host/"), forward("sb://host/queue?x"), forward("%zz"),
		forward("sb://host/queue" + strings.Repeat("/", 2000)),
		queue("<RequiresSession>true</RequiresSession><ForwardTo>queue</ForwardTo>"),
	} {
		a.put("/source", body).is(400, "SubCode=40000")
	}
	a.get("/source").notFound()
	const idle, forever = "<AutoDeleteOnIdle>PT5M</AutoDeleteOnIdle>", "<AutoDeleteOnIdle>P10675199DT2H48M5.4775807S</AutoDeleteOnIdle>"
	// SM-305: a queue shows its value, a subscription does not
	for _, element := range []string{"ForwardTo", "ForwardDeadLetteredMessagesTo"} {
		to := func(target string) string { return "<" + element + ">" + target + "</" + element + ">" }
		a.put("/source", queue(idle+to("queue"))).is(201, idle)
		a.get("/source").is(200, idle, to("sb://"+host+"/queue"))
		// itself, also before it is there
		a.update("/source", queue(idle+to("sb://x/SOURCE"))).is(200, idle, to("sb://x/SOURCE"))
		a.delete("/source")
		a.put("/source", queue(to("source"))).is(201, to("sb://"+host+"/source"))
		a.delete("/source")
		a.put("/t/Subscriptions/own", subscription(to("t"))).is(201, to("sb://"+host+"/t"))
		a.update("/t/Subscriptions/own", subscription(to("T"))).is(200, to("sb://"+host+"/T"))
		// a subscription is no target
		a.update("/t/Subscriptions/own", subscription(to("t/Subscriptions/own"))).is(400, "SubCode=40400")
		a.delete("/t/Subscriptions/own")
		a.put("/t/Subscriptions/own", subscription(to("t/Subscriptions/own"))).is(400, "SubCode=40400")
	}
	a.put("/t/Subscriptions/f", subscription(idle+"<ForwardTo>t2</ForwardTo>")).is(201, forever)
	a.delete("/t/Subscriptions/f")
	const sessions = "<RequiresSession>true</RequiresSession>"
	a.put("/partitioned", queue(sessions+"<ForwardTo>queue</ForwardTo><EnablePartitioning>true</EnablePartitioning>")).is(201, "<ForwardTo>", sessions)
	a.update("/partitioned", queue(sessions+"<ForwardTo>t</ForwardTo>")).is(200, "/t</ForwardTo>", sessions)
	a.put("/t/Subscriptions/f", subscription(sessions+"<ForwardTo>t2</ForwardTo>")).is(400, "SubCode=40000", "can't be used together")
	a.put("/source", queue(sessions+"<ForwardDeadLetteredMessagesTo>queue</ForwardDeadLetteredMessagesTo>")).is(201)
	// topics have none
	a.put("/t3", topic("<ForwardTo>missing</ForwardTo>")).is(201).lacks("ForwardTo")
}

// MA-143: the error about a missing target names it in the client's words.
func TestMissingForwardingTarget(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t")
	for _, element := range []string{"ForwardTo", "ForwardDeadLetteredMessagesTo"} {
		for _, target := range []string{"Not.There", "sb://" + host + "/Not.There", "http://other/per%cent", "t/Subscriptions/s"} {
			property := "<" + element + ">" + target + "</" + element + ">"
			a.put("/q", queue(property)).is(400, "SubCode=40400. The auto forwarding destination entity doesn't exist: '"+target+"' ("+element+").")
			a.put("/t/Subscriptions/s", subscription(property)).is(400, "doesn't exist: '"+target+"' ("+element+").")
		}
	}
	long := strings.Repeat("x", 2000)
	a.put("/q", queue("<ForwardTo>"+long+"</ForwardTo>")).is(400, "doesn't exist: '"+long[:maxShown]+"' (ForwardTo).")
}

// MA-144: an error echoes a name with a percent sign as it was sent, encoded or not.
func TestNameWithPercentSign(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t")
	for _, path := range []string{"/per%cent", "/per%25cent", "/t/Subscriptions/per%cent"} {
		shown := strings.ReplaceAll(path, "%25", "%")
		a.put(path, queue("")).is(400, "The path '"+shown+"' has", ":"+shown+", Timestamp").lacks("\uFFFD")
		a.get(path).is(400, "The path '"+shown+"' has").lacks("\uFFFD")
		a.delete(path).is(400, "The path '"+shown+"' has").lacks("\uFFFD")
	}
	a.do("POST", "/per%cent/messages", "").is(501, "(POST /per%cent/messages)").lacks("\uFFFD")
}

// MA-061 to MA-063: keys of entities.
func TestAccessRules(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	one := func(name, rights, keys string) string {
		var list string
		for r := range strings.FieldsSeq(rights) {
			list += "<AccessRights>" + r + "</AccessRights>"
		}
		return `<AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights>` + list + `</Rights><KeyName>` + name + `</KeyName>` + keys + `</AuthorizationRule>`
	}
	rules := func(list ...string) string {
		return queue("<AuthorizationRules>" + strings.Join(list, "") + "</AuthorizationRules>")
	}
	const key = "4444444444444444444444444444444444444444abcd"
	keys := "<PrimaryKey>" + key + "</PrimaryKey><SecondaryKey>second</SecondaryKey>"
	a.create("other", "topic:t")
	w := a.put("/q", rules(one("z", "Send Manage Listen", keys), one("a", "Listen", ""))).is(201).lacks("CreatedTime", "ModifiedTime")
	a.get("/q").is(200).lacks("CreatedTime", "ModifiedTime")
	got := w.entity().Properties.AccessRules
	if len(got) != 2 || got[0].Name != "z" || got[1].Name != "a" || fmt.Sprint(got[0].Rights) != "[Send Manage Listen]" || got[0].Primary != key || got[0].Secondary != "second" {
		t.Errorf(`%+v; want len(got) == 2 && got[0].Name == "z" && got[1].Name == "a" && fmt.Sprint(got[0].Rights) == "[Send Manage Listen]" && got[0].Primary == key && got[0].Secondary == "second"`, got)
	}
	if raw, err := base64.StdEncoding.DecodeString(got[1].Primary.Reveal()); err != nil || len(raw) != 32 || got[1].Primary == got[1].Secondary {
		t.Error("no key was made")
	}
	token := sign("sb://"+host, "Z", key)
	a.get("/q", "Authorization", token).is(200)
	a.get("/other", "Authorization", token).is(401)
	a.get("/$Resources/Queues", "Authorization", token).is(401)
	a.get("/$namespaceinfo", "Authorization", token).is(401)
	a.get("/q", "Authorization", sign("sb://"+host, "a", got[1].Secondary.Reveal())).is(401, "Manage,EntityRead")
	w = a.update("/q", rules(one("A", "Listen Send", ""), one("z", "Send", "<PrimaryKey>new</PrimaryKey>"))).is(200)
	now := w.entity().Properties.AccessRules
	if now[0].Primary != got[1].Primary || now[1].Primary != "new" || now[1].Secondary != "second" {
		t.Error("keys that were left out were changed")
	}
	a.get("/q", "Authorization", token).is(401, "SubCode=40103")
	a.update("/q", queue("")).is(200, "<AuthorizationRules/>")
	var many []string
	for i := range 13 {
		many = append(many, one(fmt.Sprintf("rule%d", i), "Send", keys))
	}
	a.update("/q", rules(many[:12]...)).is(200)
	a.update("/q", rules(many...)).is(403, "<Code>403</Code>", "SubCode=40300")
	a.put("/t13", strings.ReplaceAll(rules(many...), "QueueDescription", "TopicDescription")).is(403)
	for _, bad := range []string{
		one("m", "Manage", keys), one("m", "Manage Send", keys), one("m", "", keys), one("m", "Send Send", keys), one("m", "Other", keys), one("", "Send", keys), one("a b", "Send", keys),
		one(strings.Repeat("n", 257), "Send", keys), one("k", "Send", "<PrimaryKey>"+strings.Repeat("k", 257)+"</PrimaryKey>"), one("d", "Send", keys) + one("D", "Send", keys),
	} {
		a.put("/bad", rules(bad)).is(400, "SubCode=40000").lacks(key)
	}
	a.put("/t/Subscriptions/s", strings.ReplaceAll(rules(one("z", "Send", keys)), "QueueDescription", "SubscriptionDescription")).is(201).lacks("AuthorizationRule")
}

// Names (management-api.md 5.4, MA-122).
func TestNames(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t")
	for path, status := range map[string]int{
		"/a.b-c_d~e": 201, "/" + strings.Repeat("x", 260): 201, "/" + strings.Repeat("x", 261): 400, "/a%20b": 400, "/a%23b": 400, "/-a": 201, "/a-": 201, "/a__": 201, "/.a": 400, "/a.": 400, "/a//b": 400, "/%C3%A9": 400,
		"/$x": 400, "/a/$x": 400, "/subscriptions": 400, "/Subscriptions/x/y": 400, "/a/subscriptions/b/c/d": 400, "/": 400, "/$Resources/Other": 400,
	} {
		a.put(path, queue("")).is(status)
	}
	for name, status := range map[string]int{strings.Repeat("s", 50): 201, strings.Repeat("s", 51): 400, "a%20b": 400, "$x": 400, "a~b": 201} {
		a.put("/t/Subscriptions/"+name, subscription("")).is(status)
	}
	a.put("/a%20b", queue("")).is(400, "can contain only letters, numbers, periods (.), hyphens (-), and underscores (_)")
}

// Bodies that are not valid (S27, S28; management-api.md 1.8).
func TestBodies(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t")
	for name, c := range map[string]struct {
		path, body string
		status     int
	}{
		"empty":            {"/q", "", 400},
		"not XML":          {"/q", "{}", 400},
		"cut":              {"/q", queue("")[:50], 400},
		"document type":    {"/q", "<!DOCTYPE x>" + queue(""), 400},
		"no content":       {"/q", `<entry xmlns="http://www.w3.org/2005/Atom"/>`, 400},
		"a feed":           {"/q", `<feed xmlns="http://www.w3.org/2005/Atom"/>`, 400},
		"a rule":           {"/q", rule(""), 400},
		"a subscription":   {"/q", subscription(""), 400},
		"a topic":          {"/t/Subscriptions/s", topic(""), 400},
		"a queue for rule": {"/t/Subscriptions/s/Rules/r", queue(""), 400},
		"deep":             {"/q", queue(strings.Repeat("<x>", 40) + strings.Repeat("</x>", 40)), 400},
		"many elements":    {"/q", queue(strings.Repeat("<x/>", 1000)), 400},
		"64 KiB":           {"/q64", queue("") + strings.Repeat(" ", 64<<10-len(queue(""))), 201},
		"a byte more":      {"/q", queue("") + strings.Repeat(" ", 64<<10-len(queue(""))+1), 413},
	} {
		w := a.put(c.path, c.body)
		if w.status != c.status {
			t.Errorf("%s: %d %s; want w.status == c.status", name, w.status, w.body)
		}
		if c.status >= 400 {
			w.is(c.status, fmt.Sprintf("<Error><Code>%d</Code><Detail>SubCode=40000. ", c.status), "TrackingId:", "SystemTracker:", "Timestamp:2026-01-01T00:00:00</Detail></Error>")
		}
	}
	a.get("/q").notFound()
	if w := a.put("/q", "<"+strings.Repeat("a", 60000)+"></b>").is(400); len(w.body) > 2000 {
		t.Errorf("%d bytes of the body come back", len(w.body))
	}
	for n, status := range map[int]int{64 << 10: 201, 64<<10 + 1: 413} { // no length is told
		r := httptest.NewRequest("PUT", fmt.Sprintf("/chunked%d?api-version=2021-05", n), strings.NewReader(queue("")+strings.Repeat(" ", n-len(queue("")))))
		r.Host, r.ContentLength, r.TransferEncoding = host, -1, []string{"chunked"}
		r.Header.Set("Authorization", a.token)
		a.serve(r).is(status)
	}
}

// The answer repeats the id of a request; the text about it cannot be forged.
func TestRequestID(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, id := range []string{"7e0d", ""} {
		if w := a.get("/missing", "x-ms-client-request-id", id, "x-ms-return-client-request-id", "true"); w.header.Get("x-ms-client-request-id") != id {
			t.Errorf(`%v; want w.header.Get("x-ms-client-request-id") == id`, w.header)
		}
	}
	if w := a.get("/missing", "x-ms-client-request-id", strings.Repeat("x", 300)); w.header.Get("x-ms-client-request-id") != "" {
		t.Error("a long id comes back")
	}
	a.get("/<script>alert(1)</script>?api-version=x").is(400).lacks("<script>")
}

// MA-111, MA-112: of two creates one wins; of two updates the last one does, whole.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var wg sync.WaitGroup
	statuses := make([]int, 16)
	for i := range statuses {
		wg.Go(func() { statuses[i] = a.put("/q", queue("")).status })
	}
	wg.Wait()
	created := 0
	for _, s := range statuses {
		switch s {
		case http.StatusCreated:
			created++
		case http.StatusConflict:
		default:
			t.Errorf("status %d", s)
		}
	}
	if created != 1 {
		t.Errorf("%d created", created)
	}
	for i := range 16 {
		wg.Go(func() {
			a.update("/q", queue(fmt.Sprintf("<MaxDeliveryCount>%d</MaxDeliveryCount><UserMetadata>%d</UserMetadata>", i+1, i+1))).is(200)
			if p := a.get("/q").entity().Properties; p.UserMetadata != fmt.Sprint(p.MaxDeliveryCount) {
				t.Errorf("mixed: %+v", p)
			}
		})
	}
	wg.Wait()
}

// MA-100 to MA-102: the counters of the engine, and when something was last used.
func TestRuntime(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s")
	a.fake.runtimes["q"] = engine.Runtime{Active: 1, DeadLetter: 1, Scheduled: 1, SizeBytes: 1234, AccessedAt: start + 5000}
	a.fake.runtimes["t"] = engine.Runtime{Scheduled: 1, SizeBytes: 99}
	a.fake.runtimes["t/subscriptions/s"] = engine.Runtime{Active: 1, DeadLetter: 1, Transfer: 2, TransferDeadLetter: 3}
	a.get("/q").is(200, "<SizeInBytes>1234<", "<MessageCount>3<", "<AccessedAt>2026-01-01T00:00:05Z<",
		"<d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount><d2p1:DeadLetterMessageCount>1</d2p1:DeadLetterMessageCount><d2p1:ScheduledMessageCount>1<")
	a.get("/t").is(200, "<SizeInBytes>99<", "<d2p1:ActiveMessageCount>0<", "<d2p1:ScheduledMessageCount>1<")
	a.get("/t/Subscriptions/s").is(200, "<MessageCount>7<", "<d3p1:ScheduledMessageCount>0</d3p1:ScheduledMessageCount><d3p1:TransferMessageCount>2</d3p1:TransferMessageCount><d3p1:TransferDeadLetterMessageCount>3<")
	a.get("/$Resources/Queues").is(200, "<MessageCount>3<")
}

// P24: for an entity on a refused partition, everything is shown except counts and sizes, which are
// -1; other entities are as usual.
func TestRuntimeUnknown(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("lost", "sound", "topic:t", "t/Subscriptions/s")
	for _, path := range []string{"lost", "t", "t/subscriptions/s"} {
		a.fake.runtimes[path] = engine.Runtime{Unknown: true, AccessedAt: start + 5000}
	}
	a.fake.runtimes["sound"] = engine.Runtime{Active: 1, SizeBytes: 1234}
	const limited = "<EntityAvailabilityStatus>Limited<"
	counts := func(prefix string) string {
		text := ""
		for _, name := range []string{"Active", "DeadLetter", "Scheduled", "Transfer", "TransferDeadLetter"} {
			text += "<" + prefix + name + "MessageCount>-1</" + prefix + name + "MessageCount>"
		}
		return text + "</CountDetails>"
	}
	a.get("/lost").is(200, "<MaxSizeInMegabytes>", "<LockDuration>", "<AccessedAt>2026-01-01T00:00:05Z<", "<SizeInBytes>-1<", "<MessageCount>-1<", counts("d2p1:"), limited)
	a.get("/t").is(200, "<MaxSizeInMegabytes>", "<SubscriptionCount>1<", "<SizeInBytes>-1<", counts("d2p1:"), limited)
	a.get("/t/Subscriptions/s").is(200, "<LockDuration>", "<MessageCount>-1<", counts("d3p1:"), limited)
	a.get("/sound").is(200, "<EntityAvailabilityStatus>Available<").lacks("-1")
	queues := a.get("/$Resources/Queues").is(200, ">lost<", ">sound<", "<MessageCount>1<", "<SizeInBytes>1234<", counts("d2p1:"))
	if n := strings.Count(queues.body, limited); n != 1 {
		t.Errorf("%d queues are limited", n)
	}
	for i, want := range []document.Runtime{{Unknown: true, Limited: true}, {Active: 1, SizeBytes: 1234}} {
		if got := queues.parse().Feed.Entries[i].Entity.Runtime; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	echo := a.get("/lost") // a client that sends back the document that it has read
	a.update("/lost", echo.body).is(200)
}

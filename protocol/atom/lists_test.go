package atom

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// follow reads a list page by page as clients that go by the link do.
func (a *api) follow(path string) (titles []string, pages int) {
	a.t.Helper()
	for path != "" {
		feed := a.get(path).is(200).parse().Feed
		for _, e := range feed.Entries {
			titles = append(titles, e.Title)
		}
		pages++
		path = ""
		if feed.Next != "" {
			next, err := url.Parse(feed.Next)
			if err != nil {
				a.t.Fatal(err)
			}
			path = next.RequestURI()
		}
	}
	return titles, pages
}

// MA-070: 250 queues in order, each once, the way each SDK pages.
func TestPaging(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	var names []string
	for i := range 250 {
		name := fmt.Sprintf("Queue%d", i)
		if i%2 == 1 {
			name = strings.ToLower(name)
		}
		names = append(names, name)
	}
	a.create(names...)
	a.create("topic:other")
	for i := range names {
		names[i] = strings.ToLower(names[i]) // as they are shown
	}
	slices.Sort(names)
	for path, want := range map[string]int{
		"/$Resources/Queues?api-version=2021-05":                        3, // js
		"/$Resources/queues?api-version=2021-05&enrich=false":           3,
		"/$Resources/queues?$skip=0&$top=100&api-version=2021-05":       3, // py, java
		"/$Resources/Queues?api-version=2021-05&%24top=30":              9,
		"/$Resources/Queues?api-version=2021-05&%24top=1000":            3,
		"/$Resources/Queues/?&%24skip=0&%24top=125&api-version=2021-05": 3,
	} {
		got, pages := a.follow(path)
		if !slices.Equal(got, names) || pages != want {
			t.Errorf("%s: %d in %d pages", path, len(got), pages)
		}
	}
	// MA-071: by number until a page is empty, as go and net do.
	var got []string
	for skip := 0; ; {
		feed := a.get(fmt.Sprintf("/$Resources/Queues?api-version=2021-05&%%24skip=%d&%%24top=1", skip)).parse().Feed
		if len(feed.Entries) == 0 {
			break
		}
		got = append(got, feed.Entries[0].Title)
		skip += len(feed.Entries)
	}
	if !slices.Equal(got, names) {
		t.Errorf("one by one: %d", len(got))
	}
}

// MA-072: self then next, and two links exactly where there is more.
func TestLinks(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("a/b", "c", "topic:t", "t/Subscriptions/s1", "t/Subscriptions/s2", "t/Subscriptions/s1/Rules/r")
	w := a.get("/$Resources/queues?$skip=0&$top=1&api-version=2021-05&enrich=false").is(200,
		`<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Queues</title><id>http://bus.example:5300/$Resources/queues?$skip=0&amp;$top=1&amp;api-version=2021-05&amp;enrich=false</id>`,
		`<link rel="self" href="http://bus.example:5300/$Resources/queues?$skip=0&amp;$top=1&amp;api-version=2021-05&amp;enrich=false"/><link rel="next" href="http://bus.example:5300/$Resources/queues?%24skip=1&amp;%24top=1&amp;api-version=2021-05"/><entry xml:base="http://bus.example:5300/$Resources/queues?$skip=0`,
		`<id>http://bus.example:5300/a/b?`, `<link rel="self" href="../a/b?`, "<CountDetails", "<AccessedAt>")
	if w.header.Get("Content-Type") != "application/atom+xml;type=feed;charset=utf-8" {
		t.Errorf(`%v; want w.header.Get("Content-Type") == "application/atom+xml;type=feed;charset=utf-8"`, w.header)
	}
	a.get("/$Resources/queues?$skip=1&$top=1&api-version=2021-05").is(200, `rel="self"`, `<title type="text">c</title>`).lacks(`rel="next"`)
	a.get("/$Resources/Topics").is(200, `<title type="text">Topics</title>`, `<title type="text">t</title>`, "<SubscriptionCount>2<").lacks("QueueDescription")
	a.get("/T/subscriptions/").is(200, `<title type="text">Subscriptions</title>`, `<id>http://bus.example:5300/t/Subscriptions/s1?`, `href="Subscriptions/s1?`, `<title type="text">s2</title>`)
	a.get("/t/Subscriptions/s1/rules/?api-version=2021-05&$top=1").is(200, `<title type="text">Rules</title>`, `<id>http://bus.example:5300/t/Subscriptions/s1/Rules/$Default?`, `href="Rules/$Default?`, `rel="next"`)
	a.get("/t/Subscriptions/s1/rules/?api-version=2021-05&$skip=1").is(200, `<title type="text">r</title>`).lacks("$Default", `rel="next"`)
}

// Over TLS every address in an answer uses TLS, at the host of the request.
func TestLinksOverTLS(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("a", "b", "topic:t", "t/Subscriptions/s1", "t/Subscriptions/s2")
	for _, path := range []string{"/a", "/t", "/t/Subscriptions/s1", "/t/Subscriptions/s1/Rules/$Default", "/$Resources/Queues?$top=1&api-version=2021-05", "/t/Subscriptions?$top=1&api-version=2021-05",
		"/t/Subscriptions/s1/Rules", "/$namespaceinfo"} {
		for _, asked := range []string{"Bus.example:5671", "localhost"} {
			if !strings.Contains(path, "?") {
				path += "?api-version=2021-05"
			}
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Authorization", a.token)
			r.Host, r.TLS = asked, &tls.ConnectionState{}
			w := a.serve(r).is(200, "<id>https://"+asked+"/").lacks("http://bus", "http://"+asked)
			if strings.Contains(path, "top") {
				w.is(200, `rel="next" href="https://`+asked+`/`, `xml:base="https://`+asked+`/`)
			}
		}
	}
}

// MA-073 to MA-075: bad numbers, empty lists, pages after the end.
func TestListEdges(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s")
	for path, title := range map[string]string{
		"/$Resources/Queues": "Queues", "/$Resources/Topics?api-version=2021-05&$skip=5": "Topics", "/t/Subscriptions?api-version=2021-05&$skip=1": "Subscriptions",
		"/t/Subscriptions/s/Rules?api-version=2021-05&$skip=99999999999999999999": "Rules", "/$Resources/Topics?api-version=2021-05&$top=0": "Topics",
	} {
		w := a.get(path).is(200, `<title type="text">`+title+`</title>`, `rel="self"`).lacks("<entry", `rel="next"`)
		if !strings.HasSuffix(w.body, "</feed>") {
			t.Errorf(`%+v; want strings.HasSuffix(w.body, "</feed>")`, w.body)
		}
	}
	for query, name := range map[string]string{
		"$skip=-1": "skip", "%24skip=-1&%24top=-1": "skip", "$top=-5": "top", "$top=x": "top", "$skip=1.5": "skip", "$skip=-99999999999999999999": "skip",
	} {
		for _, path := range []string{"/$Resources/Queues", "/t/Subscriptions", "/t/Subscriptions/s/Rules"} {
			a.get(path+"?api-version=2021-05&"+query).is(400, "SubCode=40000. Parameter '"+name+"' should be non-negative integer.")
		}
	}
	a.get("/missing/Subscriptions").is(404, "<Detail>SubCode=40400")
	a.get("/t/Subscriptions/missing/Rules").is(404, "<Detail>The messaging entity 'ns:Topic:t|missing' could not be found.")
	a.delete("/t/Subscriptions/s/Rules/$Default").is(200)
	a.get("/t/Subscriptions/s/Rules").is(200).lacks("<entry")
}

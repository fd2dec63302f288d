package atom

import "testing"

// MA-020, MA-022: fixed segments in any case, names in several segments, a slash at the end.
func TestParseRoute(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]route{
		"/":                          {kind: entityPath, path: "", entity: ""},
		"/q":                         {kind: entityPath, path: "q", entity: "q"},
		"/a/b/c":                     {kind: entityPath, path: "a/b/c", entity: "a/b/c"},
		"/$Resources/Queues":         {kind: queuesPath, path: "$Resources/Queues", entity: "$Resources/Queues"},
		"/$resources/queues/":        {kind: queuesPath, path: "$resources/queues", entity: "$resources/queues"},
		"/$RESOURCES/topics":         {kind: topicsPath, path: "$RESOURCES/topics", entity: "$RESOURCES/topics"},
		"/$NamespaceInfo":            {kind: namespacePath, path: "$NamespaceInfo", entity: "$NamespaceInfo"},
		"/t/Subscriptions":           {kind: subscriptionsPath, path: "t/Subscriptions", entity: "t", subscriptions: "Subscriptions"},
		"/a/b/subscriptions/":        {kind: subscriptionsPath, path: "a/b/subscriptions", entity: "a/b", subscriptions: "subscriptions"},
		"/a/b/SUBSCRIPTIONS/s":       {kind: subscriptionPath, path: "a/b/SUBSCRIPTIONS/s", entity: "a/b", subscription: "s", subscriptions: "SUBSCRIPTIONS"},
		"/t/Subscriptions/rules":     {kind: subscriptionPath, path: "t/Subscriptions/rules", entity: "t", subscription: "rules", subscriptions: "Subscriptions"},
		"/t/subscriptions/s/rules":   {kind: rulesPath, path: "t/subscriptions/s/rules", entity: "t", subscription: "s", subscriptions: "subscriptions", rules: "rules"},
		"/t/Subscriptions/s/Rules/":  {kind: rulesPath, path: "t/Subscriptions/s/Rules", entity: "t", subscription: "s", subscriptions: "Subscriptions", rules: "Rules"},
		"/t/Subscriptions/s/Rules/r": {kind: rulePath, path: "t/Subscriptions/s/Rules/r", entity: "t", subscription: "s", rule: "r", subscriptions: "Subscriptions", rules: "Rules"},
		"/t/Subscriptions/Subscriptions/Rules/Rules": {kind: rulePath, path: "t/Subscriptions/Subscriptions/Rules/Rules", entity: "t", subscription: "Subscriptions", rule: "Rules",
			subscriptions: "Subscriptions", rules: "Rules"},
		"/t/Subscriptions/s/Rules/r/x":  {kind: entityPath, path: "t/Subscriptions/s/Rules/r/x", entity: "t/Subscriptions/s/Rules/r/x"},
		"/t/Subscriptions/s/other/r":    {kind: entityPath, path: "t/Subscriptions/s/other/r", entity: "t/Subscriptions/s/other/r"},
		"/Subscriptions/s":              {kind: entityPath, path: "Subscriptions/s", entity: "Subscriptions/s"},
		"/q/$DeadLetterQueue":           {kind: subQueue, path: "q/$DeadLetterQueue", entity: "q/$DeadLetterQueue"},
		"/q/$Transfer/$deadletterqueue": {kind: subQueue, path: "q/$Transfer/$deadletterqueue", entity: "q/$Transfer/$deadletterqueue"},
	} {
		if got := parseRoute(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

// MA-020, MA-021, MA-023 to MA-025: one entity under all spellings of its path and query.
func TestSpellings(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("Orders/EU", "topic:T", "T/Subscriptions/S", "Space~Name")
	for _, path := range []string{"/Orders/EU", "/orders%2feu", "/ORDERS%2FEU", "/orders/eu/"} {
		a.get(path).is(200, `<title type="text">orders/eu</title>`, `<id>http://bus.example:5300/orders/eu?`)
	}
	for _, path := range []string{"/T/Subscriptions/S", "/t/subscriptions/s", "/t/SUBSCRIPTIONS/%53"} {
		a.get(path).is(200, `<title type="text">S</title>`)
	}
	// fixed segments in the client's spelling
	a.get("/t/subscriptions/s").is(200, `<id>http://bus.example:5300/t/subscriptions/S?api-version=2021-05</id>`)
	a.get("/t/subscriptions/s/rules/%24Default").is(200, `<id>http://bus.example:5300/t/subscriptions/S/rules/$Default?api-version=2021-05</id>`)
	a.get("/space%7Ename").is(200, `<title type="text">space~name</title>`)
	// decoded once, they name nothing
	for _, path := range []string{"/orders%252feu", "/%54%2573", "/T/Subscriptions/%2553", "/t/%2573ubscriptions/s"} {
		a.get(path).is(400)
	}
	for _, query := range []string{"api-version=2021-05&enrich=False", "&api-version=2021-05&&enrich=true", "x=y&enrich=nonsense&api-version=2021-05"} {
		a.get("/t?"+query).is(200, "<CountDetails ")
	}
	a.get("/$Resources/queues?&%24skip=0&%24top=1&api-version=2021-05").is(200, "<entry")
	a.get("/$Resources/queues?$skip=0&$top=1&api-version=2021-05").is(200, "<entry")
}

// MA-023: the elements of each version.
func TestVersions(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s")
	const size, affine, filters = "<MaxMessageSizeInKilobytes>", "<IsClientAffine>", "FilterCount>"
	for version, has := range map[string][3]bool{
		"2013-07": {}, "2017-04": {}, "2021-05": {true, true, false}, "2023-01": {true, true, false}, "2024-05": {true, true, true}, "2030-12": {true, true, true},
	} {
		for i, c := range []struct{ path, element string }{{"/q", size}, {"/t/Subscriptions/s", affine}, {"/t", filters}, {"/t", size}} {
			w := a.get(c.path + "?api-version=" + version).is(200)
			if want := has[[]int{0, 1, 2, 0}[i]]; want {
				w.is(200, c.element)
			} else {
				w.lacks(c.element)
			}
		}
	}
	for _, query := range []string{"?", "?api-version=", "?api-version=latest", "?api-version=2012-01", "?API-VERSION=2021-05"} {
		a.get("/q"+query).is(400, "SubCode=40000")
	}
}

// Tools request the root to see whether a service exists: any token is accepted, and no version is
// needed.
func TestRoot(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q")
	for _, token := range []string{a.token, sign("sb://"+host, "listener", listenKey), sign("sb://"+host, "sender", sendKey)} {
		for _, path := range []string{"/?", "/?x=y", "/?api-version=2021-05"} {
			a.get(path, "Authorization", token).notFound()
		}
	}
	a.get("/?", "Authorization", "").is(401, "MissingToken")
	a.get("/?", "Authorization", sign("sb://"+host+"/q", "RootManageSharedAccessKey", rootKey)).is(401)
	a.get("/?api-version=").is(400, "api-version")
	a.do("PUT", "/?", queue("")).is(400)
	a.delete("/?").is(400)
	a.do("POST", "/?", "").is(405)
}

// S21: a path that could be read in two ways is refused, but only after the token was checked.
func TestUncleanPaths(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "a/b", "topic:t", "t/Subscriptions/s")
	for _, path := range []string{
		"//q", "//", "/q//", "/a//b", "/./q", "/q/.", "/a/../q", "/..", "/q/..", "/x/%2e%2e/q", "/%2E/q", "/%2fq", "/a%2F%2Fb", "/q%2f%2f", "/a%5Cb", `/\q`, "/q.", "/a./b/.", "/a%25b", "/a:b", "/a%00", "/a%0D%0Ab", "/a%ff",
		"/t//Subscriptions", "/t/Subscriptions//s", "/t/Subscriptions//Rules", "/t/Subscriptions/s/Rules//", "/t/../t/Subscriptions/s", "/t/Subscriptions/..", "/t/Subscriptions/s/Rules/.",
		"/$Resources//Queues", "//$namespaceinfo", "//health", "/health/..", "/$servicebus//websocket",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE", "POST", "HEAD"} {
			for _, version := range []string{"?", "?api-version=2021-05"} {
				a.do(method, path+version, queue(""), "Authorization", "").is(401)
				a.do(method, path+version, queue(""), "Authorization", sign("sb://"+host, "RootManageSharedAccessKey", "x")).is(401)
				if w := a.do(method, path+version, queue("")).is(400); w.header.Get("Location") != "" {
					t.Errorf("%s: goes to %s", w.what, w.header.Get("Location"))
				}
			}
		}
	}
	// the same as without (1.2)
	for _, path := range []string{"/q/", "/q%2f", "/a%2Fb", "/a/b/", "/%71"} {
		a.get(path).is(200, "<QueueDescription")
	}
}

// S23: a body of another type than XML is refused, after the token was checked.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("topic:t", "t/Subscriptions/s", "gone")
	for _, ok := range []string{
		"application/atom+xml;type=entry;charset=utf-8", "application/atom+xml", "application/atom+xml; charset=utf-8", "application/xml", "text/xml", "Application/XML", "application/x+xml;=",
	} {
		a.put("/q", queue(""), "Content-Type", ok).is(201)
		a.update("/q", queue(""), "Content-Type", ok).is(200)
		a.delete("/q").is(200)
	}
	for _, bad := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json", "xml", "", "application/xml, text/plain", "text/plain; a=application/xml", "+xml/"} {
		for path, body := range map[string]string{"/q": queue(""), "/gone": queue(""), "/t": topic(""), "/t/Subscriptions/n": subscription(""), "/t/Subscriptions/s/Rules/r": rule(""), "/t/Subscriptions/s/Rules/": rule("")} {
			a.put(path, body, "Content-Type", bad, "Authorization", "").is(401)
			a.put(path, body, "Content-Type", bad).is(415, "<Code>415</Code>")
			a.update(path, body, "Content-Type", bad).is(415)
		}
		a.do("DELETE", "/gone", "x", "Content-Type", bad).is(415)
	}
	a.get("/q").notFound()
	a.get("/gone", "Content-Type", "text/plain").is(200)
	a.delete("/gone", "Content-Type", "text/plain").is(200) // which does not exist
}

// Every answer outside the operations is XML as well.
func TestMethods(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s")
	for path, allowed := range map[string]string{
		"/q": "GET, PUT, DELETE", "/t/Subscriptions": "GET", "/t/Subscriptions/s": "GET, PUT, DELETE", "/t/Subscriptions/s/Rules": "GET, PUT",
		"/t/Subscriptions/s/Rules/$Default": "GET, PUT, DELETE", "/$Resources/Queues": "GET", "/$namespaceinfo": "GET",
	} {
		for _, method := range []string{"POST", "PATCH", "DELETE", "OPTIONS", "HEAD"} {
			if method == "DELETE" && len(allowed) > 8 {
				continue
			}
			w := a.do(method, path, "").is(405)
			if w.header.Get("Allow") != allowed || w.header.Get("Content-Type") != "application/xml; charset=utf-8" {
				t.Errorf(`%s: %v; want w.header.Get("Allow") == allowed && w.header.Get("Content-Type") == "application/xml; charset=utf-8"`, w.what, w.header)
			}
			if method != "HEAD" {
				w.is(405, "<Error><Code>405</Code><Detail>The specified HTTP verb ("+method+") is not valid.")
			}
		}
	}
	a.get("/q/$DeadLetterQueue").is(400, "The specified HTTP verb (GET) is not valid.")
	a.get("/missing/$deadletterqueue").is(400, "The specified HTTP verb (GET) is not valid.")
}

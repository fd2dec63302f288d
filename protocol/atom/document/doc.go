// Package document is the XML of the management API as Go values (management-api.md 1.8, 2.2 to
// 2.10, 3): entries, feeds and errors, which contain descriptions of entities, rules and the
// namespace. Server and client use the same code.
//
// It reads leniently (any order, any prefix, unknown elements) and writes exactly, because readers
// are not lenient: canonical order, the literal prefixes i, d2p1, d3p1 and d6p1, no attribute on an
// empty element. Input is bounded in bytes, depth and elements, and may not contain a document
// type, entity or processing instruction (reliability.md S28). The package knows no clock, no
// network and no rule of the engine: values out of range are read unchanged.
//
// A create request and its answer:
//
//	d := document.Description{Kind: event.Queue}
//	d.Properties.RequiresSession = true
//	d.Present.Add(document.RequiresSession)
//	body := document.AppendEntry(nil, &document.Entry{Entity: &d}, document.Format{Form: document.Request})
//	...
//	doc, err := document.Parse(answer, document.Options{Limits: document.ResponseLimits})
//	path := doc.Entry.Title
package document

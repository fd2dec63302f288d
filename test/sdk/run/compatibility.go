package main

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ledgerbus/ledgerbus/test/sdk/lab"
)

// headings are the groups as people call them.
var headings = map[string]string{
	"send": "Sending", "receive": "Receiving", "locks": "Locks", "settle": "Settlement", "dead-letter": "Dead-letter queues", "expiry": "Expiry",
	"schedule": "Scheduling", "defer": "Deferral", "peek": "Peek", "batch-delete": "Batch delete", "sessions": "Sessions",
	"duplicates": "Duplicate detection", "status-quota": "Status, quotas and limits", "credit": "Credit, drain and prefetch",
	"connection": "Connections", "topics": "Topics and subscriptions", "rules": "Rules: filters and actions", "forwarding": "Forwarding",
	"transactions": "Transactions", "jms": "JMS: transacted sessions", "proton": "Qpid Proton: transactions", "admin": "Administration clients",
}

// introductions are the texts below the headings of groups. A line is a paragraph.
var introductions = map[string]string{
	"connection": "TLS and WebSocket were tested with the messaging clients of all four SDKs, on the port that also accepts plain AMQP, " +
		"with the certificate of the development authority. These settings make a client trust it: `TLSConfig` (go), `NODE_EXTRA_CA_CERTS` (js), " +
		"`connection_verify` (python) and the default `SSLContext` of the process (java). Python and Java drop the port of a connection string; " +
		"`custom_endpoint_address` and `customEndpointAddress` restore it. The WebSocket libraries are `github.com/coder/websocket` " +
		"(go, where the application opens the connection), `ws` (js), `websocket-client` (python) and the SDK's own (java).\n" +
		"A message over the size limit does not end its link ([reason](decisions/0005-an-oversized-message-does-not-end-its-link.md)).",
	"transactions": "Of the four SDKs, only Java's has transactions. Those of Go, JavaScript and Python have no call for them.",
	"jms": "Qpid JMS uses plain AMQP. Its addresses are the names of entities. Its user name and password are the name and key of an authorization rule. " +
		"The listener is the `DefaultMessageListenerContainer` of `spring-jms`; only `sessionTransacted` is set.",
	"proton": "Qpid Proton for Python uses plain AMQP, with the name and key of an authorization rule as user name and password. " +
		"The scenarios do the same as its examples `tx_send.py` and `tx_recv.py`.",
	"admin": "The administration client of each SDK has the same connection string as its messaging client, and uses HTTPS on that port, " +
		"with the certificate of the development authority. These settings make it trust the certificate: a transport (go), `NODE_EXTRA_CA_CERTS` (js), " +
		"`connection_verify` (python) and a trust store (java). Java's client drops the port of a connection string. " +
		"A pipeline policy restores it; a broker that listens on 443 needs none.",
}

// outside are the results of suites that run elsewhere, as they stand on the page.
//
//go:embed outside.txt
var outside string

// column is a client of the compatibility page, with what every round of it came to.
type column struct {
	SDK, Package, Version string
	Rounds                []Report
	Partitioned           []Report // of the rounds on partitioned entities
}

// mark is the worst of all rounds on plain entities.
func (c column) mark(s lab.Scenario) string { return c.worst(s, c.Rounds) }

// both is the mark of plain entities, followed by that of partitioned ones if the client runs on
// those.
func (c column) both(s lab.Scenario) string {
	plain := c.mark(s)
	if !slices.Contains(lab.SDKs, c.SDK) || plain == cannot {
		return plain
	}
	if other := c.worst(s, c.Partitioned); other == cannot {
		return plain + " " + other
	} else {
		return plain + other
	}
}

// worst is the worst mark of some rounds.
func (c column) worst(s lab.Scenario, rounds []Report) string {
	worst := unknown
	if s.Not[c.SDK] != "" {
		worst = cannot // the list says so, whoever ran
	}
	if len(rounds) > 0 && s.Why(c.SDK, rounds[0].Partitioned) != "" {
		worst = cannot
	}
	for _, r := range rounds {
		if v := r.Verdict(s); v.Mark != unknown && worst != failed {
			worst = v.Mark
		}
	}
	return worst
}

// writeCompatibility writes docs/compatibility.md: one row a behaviour, with what shows it. longest
// is that of all rounds of all suites, 0 if there was none. some are statements to be listed at the
// end.
func writeCompatibility(w io.Writer, list lab.List, columns []column, longest time.Duration, some []statement) error {
	p := &page{}
	p.head(list, columns)
	p.time(columns, longest)
	p.contents(list, columns)
	group := ""
	for _, s := range list.Scenarios {
		if s.Group != group {
			group = s.Group
			p.heading(group, of(columns, list, group))
		}
		p.row(s, of(columns, list, group))
	}
	p.statements(some)
	p.printf("%s", outside)
	for i, note := range p.notes {
		p.printf("\n%s\n", wrap(fmt.Sprintf("[^%d]: %s.", i+1, note), 100))
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// of are the columns of a group.
func of(columns []column, list lab.List, group string) (some []column) {
	for _, c := range columns {
		if slices.Contains(list.Of(group), c.SDK) {
			some = append(some, c)
		}
	}
	return some
}

// page is the page while it is written.
type page struct {
	text  strings.Builder
	notes []string
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

// prose adds paragraphs, each followed by an empty line. A line of the text is a paragraph.
func (p *page) prose(format string, args ...any) {
	for paragraph := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		p.printf("%s\n\n", wrap(paragraph, 100))
	}
}

// wrap breaks a paragraph into lines of at most some columns, between words.
func wrap(paragraph string, columns int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(paragraph) {
		width := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+width <= columns:
			b.WriteByte(' ')
			column++
		default:
			b.WriteByte('\n')
			column = 0
		}
		b.WriteString(word)
		column += width
	}
	return b.String()
}

func (p *page) head(list lab.List, columns []column) {
	p.printf("# Compatibility with the Service Bus SDKs\n\n")
	p.prose("`make sdk` runs every suite against the broker and generates this page. Do not edit it. Each row is one behaviour, " +
		"with the scenario of [test/sdk/scenarios.json](../test/sdk/scenarios.json) that tests it step by step. The SDKs come unmodified from their registries. " +
		"The third column has the statements of the specification that the scenario shows: S (statements), SM (semantics), WP (wire protocol) and MA (management API).")
	p.prose("`%s` passed, `%s` failed, `%s` not run, `%s` the client's public API has no call for it. Each SDK has two marks: the first for plain queues and topics, "+
		"the second for a run in which every queue and topic is [partitioned](guide/partitioned.md). In that run, messages without a key get one key per scenario, "+
		"because scenarios check the order. The scenarios of the administration clients choose the kind of entity themselves.", shown, failed, unknown, cannot)
	p.printf("| client | package | version | entities | %s | %s | %s | n/a |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n", shown, failed, unknown)
	for _, c := range columns {
		p.total(list, c, plainEntities, c.Rounds)
		if slices.Contains(lab.SDKs, c.SDK) {
			p.total(list, c, partitionedEntities, c.Partitioned)
		}
	}
}

// total is how many scenarios of a client came to each mark.
func (p *page) total(list lab.List, c column, entities string, rounds []Report) {
	n := map[string]int{}
	for _, s := range list.For(c.SDK).Scenarios {
		n[c.worst(s, rounds)]++
	}
	p.printf("| %s | %s | %s | %s | %d | %d | %d | %d |\n", c.SDK, c.Package, c.Version, entities, n[shown], n[failed], n[unknown], n[cannot])
}

// time is how long all of it took, and may take.
func (p *page) time(columns []column, longest time.Duration) {
	if longest == 0 {
		return
	}
	of := "one round"
	if n := len(columns[0].Rounds); n > 1 { // all have as many
		of = fmt.Sprintf("the longest of %d rounds", n)
	}
	seconds := int(longest.Round(time.Second).Seconds())
	p.printf("\nAll suites, one after another, took %d min %d s (%s). The limit is %.0f min.\n", seconds/60, seconds%60, of, budgetOfBoth.Minutes())
}

// contents are the groups with what each SDK shows of them.
func (p *page) contents(list lab.List, columns []column) {
	p.printf("\n| part | scenarios |")
	for _, c := range columns {
		p.printf(" %s %s |", c.SDK, shown)
	}
	p.printf("\n| --- | ---: |%s\n", strings.Repeat(" ---: |", len(columns)))
	for _, group := range lab.Groups {
		total, n := 0, make([]int, len(columns))
		for _, s := range list.Scenarios {
			if s.Group != group {
				continue
			}
			total++
			for i, c := range columns {
				if c.mark(s) == shown {
					n[i]++
				}
			}
		}
		if total == 0 {
			continue
		}
		p.printf("| [%s](#%s) | %d |", headings[group], anchor(headings[group]), total)
		for i, c := range columns {
			if slices.Contains(list.Of(group), c.SDK) {
				p.printf(" %d |", n[i])
			} else {
				p.printf(" |")
			}
		}
		p.printf("\n")
	}
}

// anchor is what a heading is linked by.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func (p *page) heading(group string, columns []column) {
	p.printf("\n## %s\n\n", headings[group])
	if text := introductions[group]; text != "" {
		p.prose("%s", text)
	}
	p.printf("| behaviour | scenario | shows |")
	for _, c := range columns {
		p.printf(" %s |", c.SDK)
	}
	p.printf("\n| --- | --- | --- |%s\n", strings.Repeat(" :---: |", len(columns)))
}

func (p *page) row(s lab.Scenario, columns []column) {
	title := strings.ReplaceAll(s.Title, "|", `\|`)
	if s.Partitioned != "" {
		title += p.footnote("On partitioned entities: " + s.Partitioned)
	}
	p.printf("| %s | %s | %s |", title, s.ID, strings.Join(s.Refs, " "))
	for _, c := range columns {
		mark := c.both(s)
		switch {
		case mark == cannot:
			mark += p.footnote(s.Not[c.SDK])
		case strings.HasSuffix(mark, cannot):
			mark += p.footnote(s.NotPartitioned[c.SDK])
		case s.Note[c.SDK] != "":
			mark += p.footnote(s.Note[c.SDK])
		}
		p.printf(" %s |", mark)
	}
	p.printf("\n")
}

// footnote refers to a note; equal ones stand once.
func (p *page) footnote(note string) string {
	i := slices.Index(p.notes, note)
	if i < 0 {
		i = len(p.notes)
		p.notes = append(p.notes, note)
	}
	return fmt.Sprintf("[^%d]", i+1)
}

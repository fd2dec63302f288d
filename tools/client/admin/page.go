package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
)

const pageSize = 100 // the most that a broker gives at a time (2.6)

// pages calls take with each entry of a list. If take refuses an entry, by returning false, the
// list is not of what was asked for, which is an error. Each name is taken once: what is created or
// deleted meanwhile moves others from page to page.
func (c *Client) pages(ctx context.Context, op, path string, take func(*document.Entry) bool) error {
	seen := map[string]bool{}
	for skip := 0; ; {
		query := url.Values{"$skip": {strconv.Itoa(skip)}, "$top": {strconv.Itoa(pageSize)}}
		doc, err := c.do(ctx, request{op: op, method: http.MethodGet, path: path, query: query})
		if err != nil {
			return err
		}
		if doc == nil || doc.Feed == nil {
			return &Error{Op: op, Text: "the answer is not a list"}
		}
		if doc.Feed.NotFound() {
			return nil // the cloud's other way to say that there is none
		}
		fresh := false
		for i := range doc.Feed.Entries {
			e := &doc.Feed.Entries[i]
			if name := strings.ToLower(e.Title); !seen[name] {
				seen[name], fresh = true, true
				if !take(e) {
					return &Error{Op: op, Text: fmt.Sprintf("the list contains an unexpected entry: %s", e.Title)}
				}
			}
		}
		if doc.Feed.Next == "" {
			return nil
		}
		next, err := skipOf(doc.Feed.Next)
		if err != nil || next <= skip || !fresh {
			return &Error{Op: op, Text: "the list does not end"}
		}
		skip = next
	}
}

// skipOf is where the next page begins. Nothing else of a link is used: it may name another host.
func skipOf(link string) (int, error) {
	u, err := url.Parse(link)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Query().Get("$skip"))
}

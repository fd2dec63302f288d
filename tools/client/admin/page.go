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

const pageSize = 100 // the maximum of a broker (2.6)

// pages calls take with each entry of a list. If take returns false, the list contains entries of
// another kind, which is an error. Each name is taken once: concurrent creations and deletions move
// other entries from page to page.
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
			return nil // the cloud's other form of an empty list
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

// skipOf returns the start of the next page. It ignores the rest of the link, which may name
// another host.
func skipOf(link string) (int, error) {
	u, err := url.Parse(link)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Query().Get("$skip"))
}

package atom

import (
	"net/http"
	"slices"

	"github.com/ledgerbus/ledgerbus/engine"
	"github.com/ledgerbus/ledgerbus/log/event"
	"github.com/ledgerbus/ledgerbus/protocol/atom/document"
	"github.com/ledgerbus/ledgerbus/protocol/caller"
)

// defaultName is the name of a rule that has no other name.
const defaultName = "$Default"

// ruleAddress returns the path of a rule with the fixed segments in the client's spelling.
func (r *request) ruleAddress(sub *engine.Entity, rule string) string {
	return r.route.address(sub) + "/" + r.route.rules + "/" + rule
}

func (r *request) getRule(w http.ResponseWriter) error {
	sub, path := r.target()
	if sub == nil {
		return r.ruleNotFound()
	}
	rule, err := r.h.Admin.Rule(r.Context(), path, r.route.rule)
	if err != nil {
		return r.refused(err, r.ruleNotFound())
	}
	return r.writeEntry(w, http.StatusOK, r.ruleAddress(sub, rule.Name), ruleEntry(&rule))
}

// putRule creates a rule or replaces its filter and action. If the path has no name, the name in
// the body counts (management-api.md 2.9).
func (r *request) putRule(w http.ResponseWriter) error {
	entry, err := r.body(w)
	if err != nil {
		return err
	}
	if entry.Rule == nil {
		return badRequest("The body of the request does not describe a rule.")
	}
	if r.route.rule == "" {
		r.route.rule = entry.Rule.Name
	}
	if r.route.rule == "" {
		return badRequest("The rule has no name, neither in the path nor in the body.")
	}
	sub, path := r.target()
	if sub == nil {
		r.route.rule = ""
		return r.couldNotBeFound()
	}
	if err := storable(entry.Rule); err != nil {
		return err
	}
	cmd := engine.PutRule{Subscription: path, Rule: *entry.Rule, Mode: engine.CreateOnly, Origin: r.origin(), Why: r.why}
	cmd.Rule.Name = r.route.rule
	if r.quota = overSQLFilters; cmd.Rule.Filter.Kind == event.CorrelationFilter {
		r.quota = overCorrelationFilters
	}
	status := http.StatusCreated
	if r.Header.Get("If-Match") != "" {
		cmd.Mode, status = engine.UpdateOnly, http.StatusOK
	}
	rule, err := r.h.Admin.PutRule(r.Context(), cmd)
	if err != nil {
		return r.refused(err, r.ruleNotFound())
	}
	return r.writeEntry(w, status, r.ruleAddress(sub, rule.Name), ruleEntry(&rule))
}

func (r *request) deleteRule(w http.ResponseWriter) error {
	sub, path := r.target()
	if sub == nil {
		return r.couldNotBeFound()
	}
	err := r.h.Admin.DeleteRule(r.Context(), engine.DeleteRule{Subscription: path, Name: r.route.rule, Origin: r.origin(), Why: r.why})
	if err != nil {
		return r.refused(err, r.couldNotBeFound())
	}
	write(w, http.StatusOK, "", nil)
	return nil
}

// defaultRule returns the rule that a request gives a new subscription in place of $Default.
func defaultRule(rule *event.Rule) (event.Rule, error) {
	made := *rule
	if made.Name == "" {
		made.Name = defaultName
	}
	if err := engine.CheckName("Rule", made.Name); err != nil {
		return made, badRequest("%s", err.Text)
	}
	return made, storable(&made)
}

// storable refuses values of types that this API does not have, although documents can show them:
// rules made over AMQP have them (management-api.md 3.6). The engine checks the filter itself.
func storable(rule *event.Rule) error {
	for _, list := range [...][]event.Property{rule.Filter.Parameters, rule.Filter.Properties, rule.Action.Parameters} {
		for i := range list {
			switch list[i].Value.Type {
			case event.Null, event.Decimal, event.UUID:
				return badRequest("The value of '%s' is not of one of the types string, int, long, boolean, double, dateTime, duration.",
					caller.Clip(list[i].Name, maxName))
			}
		}
	}
	return nil
}

// listRules answers with a page of the rules of a subscription.
func (r *request) listRules(w http.ResponseWriter) error {
	page, err := r.readPage('r')
	if err != nil {
		return err
	}
	sub, path := r.target()
	if sub == nil {
		return r.couldNotBeFound()
	}
	rules, err := r.findRules(path, page)
	if err != nil {
		return r.refused(err, r.couldNotBeFound())
	}
	more := len(rules) > page.top
	rules = rules[:min(len(rules), page.top)]
	entries := make([]document.Entry, len(rules))
	for i := range rules {
		entries[i] = ruleEntry(&rules[i])
		entries[i].ID = r.address(r.route.address(sub)+"/Rules/"+rules[i].Name, r.URL.RawQuery)
		entries[i].Self = "Rules/" + escaped(rules[i].Name) + query(r.URL.RawQuery)
	}
	return r.writeFeed(w, "Rules", page, entries, more)
}

// findRules returns the rules of a page, and one more if there are more.
func (r *request) findRules(subscription string, p page) ([]event.Rule, error) {
	fetch := func(skip, top int) ([]event.Rule, error) {
		return r.h.Admin.Rules(r.Context(), subscription, skip, top)
	}
	if p.filter == nil {
		return fetch(p.skip, p.top+1)
	}
	return selectPage(r.Context(), p, fetch, func(piece []event.Rule) ([]event.Rule, error) {
		return slices.DeleteFunc(piece, func(rule event.Rule) bool {
			entry := ruleEntry(&rule)
			return p.filter.judge(&entry, true) != yes
		}), nil
	})
}

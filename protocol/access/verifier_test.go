package access

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ledgerbus/ledgerbus/log/event"
)

func rule(name, primary, secondary string, rights ...event.Right) event.AccessRule {
	return event.AccessRule{Name: name, Primary: event.Secret(primary), Secondary: event.Secret(secondary), Rights: rights}
}

// entities is a catalogue for tests: it returns the rules of the longest known path.
type entities map[string][]event.AccessRule

func (e entities) rules(path string) []event.AccessRule {
	for path != "" {
		if rules, ok := e[path]; ok {
			return rules
		}
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
	return nil
}

// MA-061, S6: a token of an entity's rule works on that entity and below it, wherever its scope
// reaches.
func TestEntityRules(t *testing.T) {
	t.Parallel()
	catalogue := entities{
		"t":    {rule("sender", "key-of-t", "other-of-t", event.Send), rule("both", "entity", "", event.Listen)},
		"t/in": {rule("sender", "key-of-in", "", event.Send)},
		"q":    nil,
	}
	v := New(Options{Rules: []event.AccessRule{rule("both", "namespace", "", event.Manage)}, EntityRules: catalogue.rules, Development: true})
	for _, c := range []struct {
		name, key, sr, audience string
		want                    error
		rights                  Rights
	}{
		{"sender", "key-of-t", "sb://h/t", "sb://h/t", nil, Send},
		{"sender", "other-of-t", "sb://h/t", "sb://h/T", nil, Send},
		// the scope is the namespace, the rule is not
		{"SENDER", "key-of-t", "sb://h", "sb://h/t/subscriptions/s/$management", nil, Send},
		{"sender", "key-of-t", "sb://h", "sb://h/q", ErrSignature, 0},
		{"sender", "key-of-t", "sb://h", "sb://h", ErrSignature, 0},
		{"sender", "key-of-t", "sb://h/t", "sb://h/t/in", ErrSignature, 0}, // another entity
		{"sender", "key-of-in", "sb://h/t", "sb://h/t/in", nil, Send},
		{"sender", "key-of-t", "sb://h/q", "sb://h/t", ErrScope, 0},
		{"both", "entity", "sb://h", "sb://h/t", nil, Listen},
		{"both", "namespace", "sb://h", "sb://h/t", nil, Manage}, // the same name, at two levels
		{"both", "entity", "sb://h", "sb://h/q", ErrSignature, 0},
		{"sender", "key-of-t", "sb://h", "sb://h/t/../q", ErrSignature, 0},
	} {
		g, err := v.Verify(signed(c.sr, later, c.name, c.key), c.audience, testNow)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || g.Rights != c.rights {
			t.Errorf("%s with %s for %s, audience %s: %+v, %v", c.name, c.key, c.sr, c.audience, g, err)
		}
	}
	g, err := v.Verify(signed("sb://h/t", later, "sender", "key-of-t"), "sb://h/t", testNow)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"t": true, "t/subscriptions/s": true, "t/in": false, "t/in/$management": false, "t2": false, "": false} {
		if v.Allows(g, path, Send, testNow) != want {
			t.Errorf("%s: allowed is not %t", path, want)
		}
	}
	if g.OfNamespace() {
		t.Error("an entity's rule counts as the namespace's")
	}
	catalogue["t"] = catalogue["t"][1:]
	if v.current(g) || v.Allows(g, "t", Send, testNow) {
		t.Error("the rule is gone, the grant is not")
	}
}

// current reports whether the rule and the key of a grant still exist, with the same rights.
func (v *Verifier) current(g Grant) bool { return v.inForce(g, g.Path) }

// S10, management-api.md 5.2: both keys are valid; replacing a key, or taking a right from a rule,
// ends the access that they gave.
func TestRotation(t *testing.T) {
	t.Parallel()
	v := New(Options{Rules: []event.AccessRule{rule("r", "one", "", event.Send, event.Listen)}, Development: true})
	token := signed("sb://h", later, "r", "one")
	g, err := v.Verify(token, "sb://h", testNow)
	if err != nil || !v.current(g) {
		t.Fatalf("%+v; want v.current(g)", err)
	}
	plain, err := v.Plain("R", "one")
	if err != nil || plain.Path != "" || !v.Allows(plain, "q", Send, testNow) || v.Allows(plain, "q", Manage, testNow) {
		t.Fatalf(`%+v, %v; want plain.Path == "" && v.Allows(plain, "q", Send, testNow) && !v.Allows(plain, "q", Manage, testNow)`, plain, err)
	}
	for _, step := range []struct {
		rules []event.AccessRule
		good  bool
	}{
		{[]event.AccessRule{rule("r", "two", "one", event.Listen, event.Send)}, true},
		// keeps its former rights
		{[]event.AccessRule{rule("r", "two", "one", event.Manage)}, true},
		{[]event.AccessRule{rule("r", "two", "one", event.Listen)}, false},
		{[]event.AccessRule{rule("r", "two", "three", event.Listen, event.Send)}, false},
		{[]event.AccessRule{rule("s", "two", "one", event.Listen, event.Send)}, false},
		{nil, false},
	} {
		v.SetRules(step.rules)
		if v.current(g) != step.good || v.current(plain) != step.good || v.Allows(g, "q", Send, testNow) != step.good || v.Allows(g, "q", Manage, testNow) {
			t.Errorf(`%v: %t; want v.current(g) == step.good && v.current(plain) == step.good && v.Allows(g, "q", Send, testNow) == step.good && !v.Allows(g, "q", Manage, testNow)`, step.rules, v.current(g))
		}
	}
	if _, err := v.Verify(token, "sb://h", testNow); !errors.Is(err, ErrSignature) {
		t.Errorf("%+v; want errors.Is(err, ErrSignature)", err)
	}
}

// M23: whatever is missing, access is refused.
func TestDenied(t *testing.T) {
	t.Parallel()
	nobody := New(Options{})
	if _, err := nobody.Verify(signed("sb://h", later, "", ""), "sb://h", testNow); err == nil {
		t.Error("no rules, but a token is good")
	}
	for _, user := range []string{"", "r"} {
		if _, err := nobody.Plain(user, ""); err == nil {
			t.Errorf("%q logs in without a key", user)
		}
	}
	keyless := New(Options{Rules: []event.AccessRule{{Name: "r", Rights: event.Rights{event.Manage}}}, Development: true, EntityRules: func(string) []event.AccessRule {
		return []event.AccessRule{{Name: "r", Rights: event.Rights{event.Manage}}}
	}})
	if _, err := keyless.Plain("r", ""); err == nil {
		t.Error("an empty key logs in")
	}
	if _, err := keyless.Verify(signed("sb://h", later, "r", ""), "sb://h", testNow); err == nil {
		t.Error("an empty key signs")
	}
	for name, g := range map[string]Grant{
		"the zero grant": {}, "no rights": {Rule: "r"}, "no rule": {Rights: Manage, level: ofNamespace}, "no key": {Rule: "r", Rights: Manage, level: ofEntity},
		"an empty key": {Rule: "r", Rights: Manage, level: ofNamespace, key: new(event.Secret)},
	} {
		if keyless.Allows(g, "q", Listen, testNow) {
			t.Errorf("%s allows", name)
		}
	}
	all := Grant{Rights: Manage, Path: "q", Expires: testNow.Add(time.Second)}
	if !keyless.Allows(all, "q/x", Send, testNow) || keyless.Allows(all, "q", 0, testNow) || keyless.Allows(all, "q", Send, testNow.Add(time.Second)) || keyless.Allows(all, "q1", Send, testNow) {
		t.Error("path, right or time is not looked at")
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list event.Rights
		want Rights
	}{{nil, 0}, {event.Rights{event.Manage}, Manage}, {event.Rights{event.Listen, event.Send}, Listen | Send}, {event.Rights{9}, 0}} {
		if got := rightsOf(c.list); got != c.want {
			t.Errorf("%v: %d, want %d", c.list, got, c.want)
		}
	}
	if !Manage.Has(Send) || !Manage.Has(Listen) || (Listen | Send).Has(Manage) || Send.Has(Listen) {
		t.Error("what rights include")
	}
}

// S6: the cost of an unknown name. Compare with the figures of the other two.
func BenchmarkVerify(b *testing.B) {
	for name, token := range map[string]string{
		"good":    signed("sb://h/q", later, "root", "key+/="),
		"bad key": signed("sb://h/q", later, "root", "wrong"),
		"unknown": signed("sb://h/q", later, "nobo", "wrong"),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = testVerifier.Verify(token, "sb://h/q", testNow)
			}
		})
	}
}

// Package filter finds the rules of a topic's subscriptions that match a message, and evaluates
// what their actions change in a copy (semantics.md 15). It knows no message format, no queue and
// no log: it reads properties and returns rules and changes.
//
// [Check] refuses a rule that no subscription can have. A [Set] holds the rules of all
// subscriptions of one topic; [Set.Match] finds those that match, and [Rule.Run] runs the action of
// one of them. A Set, its rules and a [Changes] have one owner at a time.
//
//	set := filter.NewSet()
//	err := set.Put(subscription, rule)
//	for _, match := range set.Match(&message, newID) {
//		...
//	}
//
// A text is processed in three steps: parse.go parses it into a tree and prints trees, compile.go
// resolves names and parameters and puts the nodes in a row, eval.go walks them. The steps of an
// evaluation are bounded (reliability.md T4), so no rule and no message can hold up a partition.
//
// The cost of finding correlation filters depends on the matches, not on the number of rules
// (correlation.go). SQL filters with the same text are evaluated once for all of them.
//
// Nothing here uses a clock, randomness, I/O, a goroutine or the order of a map: ids for newid()
// come from the caller, who stores the result.
package filter

// Package filter says which rules of a topic's subscriptions match a message, and what their
// actions change in a copy (semantics.md 15). It knows no message format, no queue and no log: it
// sees properties and answers with rules and changes.
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
// What a text means is decided in three steps: parse.go makes a tree of it and prints one,
// compile.go resolves names and parameters and puts the nodes in a row, eval.go walks them. An
// evaluation is bounded by steps (reliability.md T4), so no rule and no message can hold up a
// partition.
//
// The cost of finding correlation filters follows the matches, not the rules (correlation.go); SQL
// filters of the same text are evaluated once for all.
//
// Nothing here uses a clock, randomness, I/O, a goroutine or the order of a map: ids for newid()
// come from the caller, who stores what came of them.
package filter

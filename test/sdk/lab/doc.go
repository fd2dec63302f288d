// Package lab is what a suite of scenarios runs in: a real broker with the queues and topics of
// ../scenarios.json, a proxy before it, and an API to kill the one and cut the connections of the
// other.
//
//	list, err := lab.ReadScenarios("test/sdk/scenarios.json")
//	l, err := lab.Open("bin/ledgerbus", dir, list)
//	defer l.Close()
//	// clients use l.ConnectionString(); POST l.Control() + "/kill"
//
// It also owns the list itself: reading it, and checking that it keeps its own rules. It does not
// know what a suite is; ../run runs those of all languages in labs, and the Go suite opens its own
// when it is not run by that.
package lab

// Package budget is the account of the process's memory (docs/decisions/0041): what is promised to
// connections, what they have taken, and what else there is, as the garbage collector has found it.
// It says who may take more, before it is taken. It knows nothing of what the memory is for.
//
// The runtime's soft limit is what the account follows. Three quarters of it are for what is in
// use; the rest is for garbage, so that the collector is not at work all the time. GOGC has no part
// in that: near the limit the collector runs whatever GOGC says. A [Share] is one connection's: a
// part is promised to it when it comes, and never refused. Beyond that it may have a quarter as
// much as is left afterwards. Couriers, snapshots and caches have a share from [Budget.Account], to
// which nothing is promised. So nobody takes the last of it, a new connection always finds some,
// and the more connections there are, the less each may take.
//
//	b := budget.New(512<<20, logger)
//	share, ok := b.Open()        // a connection came
//	if share.Take(256 << 10) {   // it wants to keep as much
//		defer share.Give(256 << 10)
//	}
package budget

// Package budget is the account of the process's memory (docs/decisions/0041): the bytes guaranteed
// to connections, the bytes they have taken, and all other memory, as measured by the garbage
// collector. It decides who may take more before it is taken. It does not know what the memory is
// for.
//
// The account follows the runtime's soft limit. Three quarters of the limit are for memory in use.
// The rest is for garbage, so that the collector does not run all the time. GOGC has no effect on
// that: near the limit the collector runs whatever GOGC says. A [Share] belongs to one connection.
// A part of it is guaranteed when the connection opens, and is never refused. Beyond that it may
// have a quarter of what would be left afterwards. Couriers, snapshots and caches have a share from
// [Budget.Account] without a guaranteed part. So no share can take the last memory, a new
// connection always finds some, and the more connections there are, the less each may take.
//
//	b := budget.New(512<<20, logger)
//	share, ok := b.Open()        // a connection came
//	if share.Take(256 << 10) {   // it wants to keep as much
//		defer share.Give(256 << 10)
//	}
package budget

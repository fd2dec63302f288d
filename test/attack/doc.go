// Package attack lets hostile peers at the real broker, at its default limits, while honest clients
// work with it, and checks that nothing comes of it (reliability.md F18, F19, F22, P23): the
// process goes on, every call of the honest clients is answered, and memory stays within the
// formula of docs/guide/settings.md.
//
//	go test ./test/attack -run TestAttack -duration 60s -v
//	go test ./test/attack -run '^$' -bench . -benchtime 1x
//
// The test takes a few seconds for each attack unless -duration says more. The benchmark reports
// how long the honest clients' calls took; a test would tell more about the machine than about the
// broker.
//
// Attackers are made of frames (peer_test.go) and come from addresses of the loopback network other
// than that of the honest clients, which are the unmodified Go SDK's.
package attack

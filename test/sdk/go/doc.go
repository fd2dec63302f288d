// Package sdkgo talks to the broker with the unmodified Go SDK of Azure Service Bus. Its tests are
// the Go column of ../scenarios.json: TestScenarios runs every scenario of that list, one subtest
// an id, on the queue or topic of that name. Each group has a file, each scenario a function that
// says the same as its steps. The words of the list (its terms) are methods of bus (bus_test.go;
// those of administration in manage_test.go), its errors are kinds (check_test.go). What else is
// worth showing with this SDK is in beyond_test.go and access_test.go.
//
// Started by ../run it uses the broker of its environment. A plain `go test` starts two of its own:
// one that all scenarios share, and one for those that kill it.
package sdkgo

// Package admin is a client of the management API of Service Bus (management-api.md). It manages
// queues, topics, subscriptions and rules of a namespace of Ledgerbus, the emulator or the cloud.
// It does not depend on the broker's packages.
//
//	c, err := admin.New(connectionString, admin.Options{})
//	q := admin.NewEntity(event.Queue, "orders")
//	q.Properties.RequiresSession = true
//	q.Present.Add(document.RequiresSession)
//	q, err = c.Create(ctx, q)
//	all, err := c.List(ctx, event.Queue, "")
//
// A refused or unanswered request returns an [*Error]. Each request is signed separately and
// limited in time; answers are limited in size. A request is repeated a few times if the broker is
// too busy for it (503, 429), and for no other reason. After an error that is not a refusal, a
// change may or may not have happened.
//
// Section numbers in comments are those of management-api.md.
package admin

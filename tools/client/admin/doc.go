// Package admin is a client of the management API of Service Bus (management-api.md): queues,
// topics, subscriptions and rules of a namespace, at Ledgerbus, at the emulator or in the cloud. It
// knows nothing of the broker's insides.
//
//	c, err := admin.New(connectionString, admin.Options{})
//	q := admin.NewEntity(event.Queue, "orders")
//	q.Properties.RequiresSession = true
//	q.Present.Add(document.RequiresSession)
//	q, err = c.Create(ctx, q)
//	all, err := c.List(ctx, event.Queue, "")
//
// Whatever is refused, or gets no answer, is an [*Error]. Each request is signed on its own and
// limited in time; answers are limited in size. What the broker was too busy for (503, 429) is
// repeated a few times, and nothing else: after an error that is not a refusal, a change may or may
// not have happened.
//
// Section numbers in comments are those of management-api.md.
package admin

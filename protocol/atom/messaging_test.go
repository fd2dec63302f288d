package atom

import (
	"strings"
	"testing"
)

// MA-137: the operations of the service's REST API for messages answer 501 with their name,
// whatever the version, the right and the case.
func TestMessagesOverREST(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q", "topic:t", "t/Subscriptions/s", "team/orders")
	listen, send := sign("sb://"+host, "listener", listenKey), sign("sb://"+host, "sender", sendKey)
	for _, c := range []struct{ method, path, want string }{
		{"POST", "/q/messages", "Send Message (POST /q/messages)"},
		{"POST", "/Q/Messages/", "Send Message"},
		{"POST", "/t/messages", "Send Message"},
		{"POST", "/missing/messages", "Send Message"},
		{"POST", "/team/orders/messages", "Send Message (POST /team/orders/messages)"},
		{"POST", "/q/messages/head", "Peek-Lock Message (POST /q/messages/head)"},
		{"DELETE", "/q/messages/head", "Receive and Delete Message"},
		{"DELETE", "/Team/Orders/MESSAGES/HEAD", "Receive and Delete Message"},
		{"POST", "/q/messages/id.1/7da9cfd5-40d5-4bb1-8d64-ec5a52e1c547", "Renew Lock for a Message"},
		{"PUT", "/q/messages/31/7da9cfd5-40d5-4bb1-8d64-ec5a52e1c547", "Unlock Message"},
		{"DELETE", "/q/messages/31/7da9cfd5-40d5-4bb1-8d64-ec5a52e1c547", "Delete Message"},
		{"DELETE", "/q/messages/a%20b.../token", "Delete Message"},
		{"POST", "/t/subscriptions/s/messages/head", "Peek-Lock Message (POST /t/subscriptions/s/messages/head)"},
		{"DELETE", "/t/Subscriptions/s/messages/head", "Receive and Delete Message"},
		{"PUT", "/t/subscriptions/s/messages/31/token", "Unlock Message"},
		{"DELETE", "/t/subscriptions/s/messages/31/token", "Delete Message"},
		{"POST", "/t/subscriptions/s/messages/31/token", "Renew Lock for a Message"},
		{"DELETE", "/q/$DeadLetterQueue/messages/head", "Receive and Delete Message"},
		{"POST", "/t/subscriptions/s/$deadletterqueue/messages/head", "Peek-Lock Message"},
	} {
		body := ""
		if strings.HasPrefix(c.want, "Send") {
			body = "a message"
		}
		for _, query := range []string{"?api-version=2021-05", "?timeout=60", "?"} {
			for _, token := range []string{a.token, listen, send} {
				w := a.do(c.method, c.path+query, body, "Authorization", token, "Content-Type", "text/plain", "BrokerProperties", `{"Label":"M1"}`)
				w.is(501, "<Code>501</Code>", c.want, "is not implemented: messages are sent and received over AMQP 1.0").lacks("SubCode")
			}
			a.do(c.method, c.path+query, body, "Authorization", "").is(401, "MissingToken")
		}
	}
}

// MA-138: a queue whose path looks like one of these operations is created, changed, read and
// deleted as any other.
func TestEntitiesThatLookLikeREST(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("q")
	for _, path := range []string{"/q/messages", "/q/messages/head", "/q/messages/31/token", "/other/messages/head", "/messages", "/messages/head", "/messages/31/token", "/a/messages/x"} {
		a.get(path).notFound()
		a.put(path, queue("")).is(201)
		a.update(path, queue("<MaxDeliveryCount>4</MaxDeliveryCount>")).is(200, "<MaxDeliveryCount>4<")
		a.get(path).is(200, "<MaxDeliveryCount>4<")
		a.delete(path).is(200)
		a.get(path).notFound()
	}
	a.delete("/other/messages/head").is(404, "No service is hosted at the specified address.")
	a.create("topic:a/messages", "a/messages/Subscriptions/messages", "a/messages/Subscriptions/messages/Rules/messages", "a/messages/Subscriptions/messages/Rules/r")
	a.delete("/a/messages/Subscriptions/messages/Rules/r").is(200)
	a.delete("/a/messages/Subscriptions/messages/Rules/messages").is(200)
	a.delete("/a/messages/Subscriptions/messages").is(200)
	for _, path := range []string{"/q", "/q/messages/31", "/messages", "/messages/head", "/a/messages/Subscriptions", "/$Resources/Queues", "/t/Subscriptions/s/Rules/messages"} {
		a.do("POST", path, "").is(405, "The specified HTTP verb (POST) is not valid.")
	}
}

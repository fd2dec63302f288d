"""Sends a message to the queue orders and receives what is there."""
import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage

EMULATOR = ("Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;")

with ServiceBusClient.from_connection_string(os.environ.get("LEDGERBUS_CONNECTION_STRING", EMULATOR)) as client:
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("hello from Python"))
    with client.get_queue_receiver("orders", max_wait_time=5) as receiver:
        for message in receiver.receive_messages(max_message_count=10):
            print(str(message))
            receiver.complete_message(message)

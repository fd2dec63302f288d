package export

// The row type of each table. The tags define names and order of the columns. An optional column is
// null if the field is zero. Times are milliseconds since 1970.

type eventRow struct {
	Partition       int32  `parquet:"partition"`
	LSN             int64  `parquet:"lsn"`
	Record          int32  `parquet:"record"`
	Position        int32  `parquet:"position"`
	At              int64  `parquet:"at,timestamp"`
	Type            string `parquet:"type,dict"`
	Event           string `parquet:"event,dict"`
	Entity          string `parquet:"entity,dict,optional"`
	EntityID        int64  `parquet:"entity_id,optional"`
	EntityPartition int32  `parquet:"entity_partition"`
	Number          int64  `parquet:"number,optional"`
	NewNumber       int64  `parquet:"new_number,optional"`
	Origin          int64  `parquet:"origin,optional"`
	MessageID       string `parquet:"message_id,optional"`
	SessionID       string `parquet:"session_id,optional"`
	Token           string `parquet:"token,optional"`
	Until           int64  `parquet:"until,timestamp,optional"`
	DeliveryCount   int32  `parquet:"delivery_count,optional"`
	Cause           string `parquet:"cause,dict,optional"`
	Reason          string `parquet:"reason,dict,optional"`
	Description     string `parquet:"description,optional"`
	OtherEntity     string `parquet:"other_entity,dict,optional"`
	Messages        int64  `parquet:"messages,optional"`
	Size            int64  `parquet:"size,optional"`
}

type messageRow struct {
	Partition       int32  `parquet:"partition"`
	LSN             int64  `parquet:"lsn"`
	At              int64  `parquet:"at,timestamp"`
	Type            string `parquet:"type,dict"`
	Entity          string `parquet:"entity,dict"`
	EntityID        int64  `parquet:"entity_id"`
	EntityPartition int32  `parquet:"entity_partition"`
	Number          int64  `parquet:"number"`
	FromEntity      string `parquet:"from_entity,dict,optional"`
	FromNumber      int64  `parquet:"from_number,optional"`
	MessageID       string `parquet:"message_id,optional"`
	SessionID       string `parquet:"session_id,optional"`
	PartitionKey    string `parquet:"partition_key,optional"`
	Subject         string `parquet:"subject,dict,optional"`
	CorrelationID   string `parquet:"correlation_id,optional"`
	ContentType     string `parquet:"content_type,dict,optional"`
	TraceParent     string `parquet:"trace_parent,optional"`
	Size            int64  `parquet:"size,optional"`
	EnqueuedAt      int64  `parquet:"enqueued_at,timestamp,optional"`
	ExpiresAt       int64  `parquet:"expires_at,timestamp,optional"`
	ScheduledFor    int64  `parquet:"scheduled_for,timestamp,optional"`
	Origin          int64  `parquet:"origin,optional"`
	Body            []byte `parquet:"body,optional"`
	BodyErased      bool   `parquet:"body_erased"`
}

type lockRow struct {
	Partition       int32  `parquet:"partition"`
	LSN             int64  `parquet:"lsn"`
	Entity          string `parquet:"entity,dict"`
	EntityID        int64  `parquet:"entity_id"`
	EntityPartition int32  `parquet:"entity_partition"`
	Number          int64  `parquet:"number"`
	Token           string `parquet:"token"`
	Attempt         int32  `parquet:"attempt"`
	LockedAt        int64  `parquet:"locked_at,timestamp"`
	Until           int64  `parquet:"until,timestamp,optional"`
	Renewals        int32  `parquet:"renewals"`
	EndedAt         int64  `parquet:"ended_at,timestamp,optional"`
	Ended           string `parquet:"ended,dict,optional"`
	Origin          int64  `parquet:"origin,optional"`
}

type sessionRow struct {
	Partition       int32  `parquet:"partition"`
	LSN             int64  `parquet:"lsn"`
	Entity          string `parquet:"entity,dict"`
	EntityID        int64  `parquet:"entity_id"`
	EntityPartition int32  `parquet:"entity_partition"`
	SessionID       string `parquet:"session_id"`
	AcceptedAt      int64  `parquet:"accepted_at,timestamp"`
	Until           int64  `parquet:"until,timestamp,optional"`
	Renewals        int32  `parquet:"renewals"`
	ReleasedAt      int64  `parquet:"released_at,timestamp,optional"`
	Released        string `parquet:"released,dict,optional"`
	Returned        int32  `parquet:"returned"`
	Origin          int64  `parquet:"origin,optional"`
}

type originRow struct {
	Partition     int32  `parquet:"partition"`
	ID            int64  `parquet:"id"`
	Connection    int64  `parquet:"connection"`
	RemoteAddress string `parquet:"remote_address,optional"`
	ContainerID   string `parquet:"container_id,optional"`
	Product       string `parquet:"product,dict,optional"`
	Principal     string `parquet:"principal,dict,optional"`
	Link          string `parquet:"link,optional"`
	Entity        string `parquet:"entity,dict,optional"`
}

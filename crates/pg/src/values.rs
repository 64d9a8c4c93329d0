//! Our types as columns.

use bytes::BytesMut;
use campanile_model::ids::{EndpointId, ExecutionId, JobId, OperationId};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use std::error::Error;

/// Any of our ids, as PostgreSQL's `uuid`: 16 bytes that sort as they are.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uuid(pub [u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    accepts!(UUID);
}

/// Which transaction wrote a row as it is: the system column `xmin`. A row that was written again has another one.
/// It is compared as `xmin = $1::int4`, for which PostgreSQL has an operator.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct WrittenBy(pub i32);

impl<'a> FromSql<'a> for WrittenBy {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(i32::from_be_bytes(raw.try_into()?)))
    }

    accepts!(XID);
}

macro_rules! ids {
    ($($id:ty),*) => {$(
        impl From<$id> for Uuid {
            fn from(id: $id) -> Self {
                Self(*id.as_bytes())
            }
        }

        impl From<Uuid> for $id {
            fn from(uuid: Uuid) -> Self {
                Self::from_bytes(uuid.0)
            }
        }
    )*};
}

ids!(JobId, ExecutionId, OperationId, EndpointId);
